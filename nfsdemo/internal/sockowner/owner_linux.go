package sockowner

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"time"

	"golang.org/x/sys/unix"
)

// Layout of struct inet_diag_req_v2 and of struct inet_diag_msg (linux/inet_diag.h).
const (
	reqSize = 56
	reqID   = 8  // struct inet_diag_sockid: ports 2 and 2, addresses 16 and 16, interface 4, cookie 8
	msgUID  = 64 // after family, state, timer, retransmissions 4, sockid 48, expires, rqueue, wqueue 12
	msgSize = 72
)

// answerTime limits the wait for the kernel, which answers within the call.
const answerTime = time.Second

// Of returns the user who owns the socket at the remote end of a connection that was accepted from this
// machine. The kernel finds it by the addresses of both ends, so it is never another one's.
func Of(local, remote *net.TCPAddr) (uint32, error) {
	msg, err := ask(request(remote, local))
	if err != nil {
		return 0, errors.Join(ErrUnknown, err)
	}
	return binary.NativeEndian.Uint32(msg[msgUID:]), nil
}

// request asks for the socket whose own address is src.
func request(src, dst *net.TCPAddr) []byte {
	b := make([]byte, unix.SizeofNlMsghdr+reqSize)
	binary.NativeEndian.PutUint32(b, uint32(len(b)))
	binary.NativeEndian.PutUint16(b[4:], unix.SOCK_DIAG_BY_FAMILY)
	binary.NativeEndian.PutUint16(b[6:], unix.NLM_F_REQUEST)
	r := b[unix.SizeofNlMsghdr:]
	r[1] = unix.IPPROTO_TCP
	binary.NativeEndian.PutUint32(r[4:], ^uint32(0)) // in any state
	id := r[reqID:]
	binary.BigEndian.PutUint16(id, uint16(src.Port))
	binary.BigEndian.PutUint16(id[2:], uint16(dst.Port))
	if s4, d4 := src.IP.To4(), dst.IP.To4(); s4 != nil && d4 != nil {
		r[0] = unix.AF_INET
		copy(id[4:], s4)
		copy(id[20:], d4)
	} else {
		r[0] = unix.AF_INET6
		copy(id[4:], src.IP.To16())
		copy(id[20:], dst.IP.To16())
		if zone, err := net.InterfaceByName(src.Zone); err == nil {
			binary.NativeEndian.PutUint32(id[36:], uint32(zone.Index))
		}
	}
	for i := 40; i < 48; i++ {
		id[i] = 0xff // no cookie
	}
	return b
}

// ask returns the answer to a request.
func ask(req []byte) ([]byte, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, unix.NETLINK_SOCK_DIAG)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	tv := unix.NsecToTimeval(int64(answerTime))
	if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &tv); err != nil {
		return nil, err
	}
	if err := unix.Sendto(fd, req, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return nil, err
	}
	buf := make([]byte, 4096)
	n, from, err := unix.Recvfrom(fd, buf, 0)
	for errors.Is(err, unix.EINTR) {
		n, from, err = unix.Recvfrom(fd, buf, 0)
	}
	if err != nil {
		return nil, err
	}
	if k, ok := from.(*unix.SockaddrNetlink); !ok || k.Pid != 0 {
		return nil, errors.New("an answer that is not the kernel's")
	}
	const head = unix.SizeofNlMsghdr
	if n < head {
		return nil, errors.New("a short answer")
	}
	switch kind := binary.NativeEndian.Uint16(buf[4:]); {
	case kind == unix.NLMSG_ERROR && n >= head+4:
		return nil, unix.Errno(-int32(binary.NativeEndian.Uint32(buf[head:])))
	case kind == unix.SOCK_DIAG_BY_FAMILY && n >= head+msgSize:
		return buf[head:n], nil
	default:
		return nil, fmt.Errorf("an answer of kind %d and %d octets", kind, n)
	}
}
