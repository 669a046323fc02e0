//go:build !linux

package rdmap

import (
	"net"
	"testing"
	"time"
)

func reno(testing.TB, ...net.Conn) {}

var start = time.Now()

func cpuTime() time.Duration { return time.Since(start) }
