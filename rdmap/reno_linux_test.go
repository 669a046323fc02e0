package rdmap_test

import (
	"net"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// reno sets the congestion control of both ends to reno.
func reno(tb testing.TB, conns ...net.Conn) {
	for _, c := range conns {
		rc, err := c.(*net.TCPConn).SyscallConn()
		if err != nil {
			tb.Fatal(err)
		}
		_ = rc.Control(func(fd uintptr) {
			if err := unix.SetsockoptString(int(fd), unix.IPPROTO_TCP, unix.TCP_CONGESTION, "reno"); err != nil {
				tb.Logf("no reno here: %v", err)
			}
		})
	}
}

// cpuTime returns the processor time used so far. When others use the machine, it disturbs a comparison less than the
// clock does.
func cpuTime() time.Duration {
	var ru unix.Rusage
	_ = unix.Getrusage(unix.RUSAGE_SELF, &ru)
	return time.Duration(ru.Utime.Nano() + ru.Stime.Nano())
}
