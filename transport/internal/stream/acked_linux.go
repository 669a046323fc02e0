package stream

import (
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// moved returns how many octets the peer's system has acknowledged, which is how far a write that has not
// ended has come, and how many octets have come from it.
func moved(conn net.Conn) (acked, received uint64, ok bool) {
	sc, is := conn.(syscall.Conn)
	if !is {
		return 0, 0, false
	}
	rc, err := sc.SyscallConn()
	if err != nil {
		return 0, 0, false
	}
	err = rc.Control(func(fd uintptr) {
		info, e := unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO)
		if ok = e == nil; ok {
			acked, received = info.Bytes_acked, info.Bytes_received
		}
	})
	return acked, received, ok && err == nil
}
