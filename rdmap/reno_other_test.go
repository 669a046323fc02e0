//go:build !linux

package rdmap_test

import (
	"net"
	"testing"
	"time"
)

func reno(testing.TB, ...net.Conn) {}

var start = time.Now()

func cpuTime() time.Duration { return time.Since(start) }
