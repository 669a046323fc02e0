//go:build !linux

package reading

import (
	"net"
	"time"
)

// NewLink returns the Link for nc.
func NewLink(nc net.Conn) Link { return NewStream(nc) }

// newAlarm returns an alarm that calls f in d.
func newAlarm(_ bool, d time.Duration, f func()) alarm { return newTimer(d, f) }
