//go:build !linux

package rdmap

import (
	"net"
	"time"
)

// newLink returns the link for nc.
func newLink(nc net.Conn) link { return newStream(nc) }

// newAlarm returns an alarm that calls f in d.
func newAlarm(_ bool, d time.Duration, f func()) alarm { return newTimer(d, f) }
