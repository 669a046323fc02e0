package stream

import (
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// acked returns how many octets the peer's system has acknowledged, which is how far a write that has not
// ended has come.
func acked(conn net.Conn) (n uint64, ok bool) {
	sc, is := conn.(syscall.Conn)
	if !is {
		return 0, false
	}
	rc, err := sc.SyscallConn()
	if err != nil {
		return 0, false
	}
	err = rc.Control(func(fd uintptr) {
		info, e := unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO)
		if ok = e == nil; ok {
			n = info.Bytes_acked
		}
	})
	return n, ok && err == nil
}
