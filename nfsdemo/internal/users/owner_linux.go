package users

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"strconv"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Layout of struct inet_diag_req_v2 and of struct inet_diag_msg (linux/inet_diag.h).
const (
	reqSize  = 56
	reqID    = 8 // struct inet_diag_sockid: ports 2 and 2, addresses 16 and 16, interface 4, cookie 8
	msgState = 1
	msgUID   = 64 // after family, state, timer, retransmissions 4, sockid 48, expires, rqueue, wqueue 12
	msgInode = 68
	msgSize  = 72
)

// Struct rtmsg (linux/rtnetlink.h) has 12 octets; the eighth is the kind of route. An attribute has a head of 4.
const (
	rtSize = unix.SizeofRtMsg
	rtKind = 7
)

// answerTime limits the wait for the kernel, which answers within the call.
const answerTime = time.Second

// Kernel asks the kernel. Its sockets are opened once, so that no question fails for want of a descriptor. It is safe
// for concurrent use.
type Kernel struct {
	mu          sync.Mutex
	diag, route int    // -1 after Close
	seq         uint32 // of the last question
	buf         [4096]byte
}

// Open returns a Kernel. It asks about the network namespace of the thread that calls. Close it at the end.
func Open() (*Kernel, error) {
	k := &Kernel{diag: -1, route: -1}
	var err error
	if k.diag, err = dial(unix.NETLINK_SOCK_DIAG); err == nil {
		k.route, err = dial(unix.NETLINK_ROUTE)
	}
	if err != nil {
		k.Close()
		return nil, fmt.Errorf("users: %w", err)
	}
	return k, nil
}

func dial(family int) (int, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, family)
	if err != nil {
		return -1, err
	}
	tv := unix.NsecToTimeval(int64(answerTime))
	if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &tv); err != nil {
		_ = unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// Close closes the sockets; every later question is answered with ErrUnknown.
func (k *Kernel) Close() {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, fd := range []*int{&k.diag, &k.route} {
		if *fd >= 0 {
			_ = unix.Close(*fd)
			*fd = -1
		}
	}
}

// Owner reports whether the other end of c, a TCP connection that was just accepted, is on this machine, and then
// returns the user who owns that socket. Everything that leaves a doubt is ErrUnknown. Sockets of the kernel, as those
// of a mount, belong to root.
//
// Choice: only a socket that is established, and has an inode, tells its owner. One that its process has closed has no
// inode, and soon reports root whoever had it; what was sent on it before is as good as any call. A socket of the
// kernel is a file of nobody, but has an inode too (sock_alloc).
func (k *Kernel) Owner(c net.Conn) (uid uint32, local bool, err error) {
	here, ok := c.LocalAddr().(*net.TCPAddr)
	there, is := c.RemoteAddr().(*net.TCPAddr)
	if !ok || !is {
		return 0, false, nil
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if local, err = k.isLocal(there); err == nil && !local {
		return 0, false, nil
	}
	if err != nil {
		return 0, true, fmt.Errorf("%w: %w", ErrUnknown, err)
	}
	uid, err = k.owner(there, here)
	// Our end is asked last: while it is open, there can be no other connection between these ports, which might be
	// somebody else's.
	if ended := isOpen(c); ended != nil {
		return 0, true, fmt.Errorf("%w: %w", ErrUnknown, ended)
	}
	if err == nil {
		return uid, true, nil
	}
	if _, own := k.owner(here, there); own != nil { // which is there
		if _, mute := errors.AsType[unix.Errno](own); mute {
			err = fmt.Errorf("%w: %w", ErrMute, err)
		}
	}
	return 0, true, fmt.Errorf("%w: %w", ErrUnknown, err)
}

// isLocal asks where packets to an address would go.
func (k *Kernel) isLocal(a *net.TCPAddr) (bool, error) {
	ip := a.AddrPort().Addr().Unmap()
	if ip.IsLoopback() {
		return true, nil
	}
	b := make([]byte, unix.SizeofNlMsghdr+rtSize)
	rt := b[unix.SizeofNlMsghdr:]
	rt[0], rt[1] = unix.AF_INET, byte(ip.BitLen())
	if ip.Is6() {
		rt[0] = unix.AF_INET6
	}
	b = attribute(b, unix.RTA_DST, ip.AsSlice())
	if a.Zone != "" { // an address that each link has
		i, err := zoneIndex(a.Zone)
		if err != nil {
			return false, err
		}
		b = attribute(b, unix.RTA_OIF, binary.NativeEndian.AppendUint32(nil, i))
	}
	msg, err := k.ask(k.route, b, unix.RTM_GETROUTE, unix.RTM_NEWROUTE, rtSize)
	if errors.Is(err, unix.ENETUNREACH) || errors.Is(err, unix.EHOSTUNREACH) {
		return false, nil // it has no way to any address of ours, either
	}
	if err != nil {
		return false, fmt.Errorf("asked for the route to %v: %w", ip, err)
	}
	return msg[rtKind] == unix.RTN_LOCAL, nil
}

func attribute(b []byte, kind uint16, v []byte) []byte {
	b = binary.NativeEndian.AppendUint16(b, uint16(unix.SizeofRtAttr+len(v)))
	return append(binary.NativeEndian.AppendUint16(b, kind), v...) // v is a multiple of 4
}

// zoneIndex returns the number of an interface, which package net names from memory: it may have another name by now.
func zoneIndex(zone string) (uint32, error) {
	if i, err := net.InterfaceByName(zone); err == nil {
		return uint32(i.Index), nil
	}
	n, err := strconv.ParseUint(zone, 10, 32)
	return uint32(n), err
}

// owner returns the owner of the socket whose own address is src.
func (k *Kernel) owner(src, dst *net.TCPAddr) (uint32, error) {
	b := make([]byte, unix.SizeofNlMsghdr+reqSize)
	r := b[unix.SizeofNlMsghdr:]
	r[1] = unix.IPPROTO_TCP
	binary.NativeEndian.PutUint32(r[4:], ^uint32(0)) // in any state
	id := r[reqID:]
	binary.BigEndian.PutUint16(id, uint16(src.Port))
	binary.BigEndian.PutUint16(id[2:], uint16(dst.Port))
	from, to := src.AddrPort().Addr().Unmap(), dst.AddrPort().Addr().Unmap()
	r[0] = unix.AF_INET
	if from.Is6() {
		r[0] = unix.AF_INET6
		if src.Zone != "" {
			i, err := zoneIndex(src.Zone)
			if err != nil {
				return 0, err
			}
			binary.NativeEndian.PutUint32(id[36:], i)
		}
	}
	copy(id[4:20], from.AsSlice())
	copy(id[20:36], to.AsSlice())
	for i := 40; i < 48; i++ {
		id[i] = 0xff // no cookie
	}
	msg, err := k.ask(k.diag, b, unix.SOCK_DIAG_BY_FAMILY, unix.SOCK_DIAG_BY_FAMILY, msgSize)
	if err != nil {
		return 0, fmt.Errorf("asked for the socket at %v: %w", src, err)
	}
	// Where there is no such connection, the kernel answers with who listens at that port: in another state, too.
	if s, inode := msg[msgState], binary.NativeEndian.Uint32(msg[msgInode:]); s != unix.BPF_TCP_ESTABLISHED || inode == 0 {
		return 0, fmt.Errorf("the socket at %v is in state %d with inode %d: nobody has it any more", src, s, inode)
	}
	return binary.NativeEndian.Uint32(msg[msgUID:]), nil
}

// isOpen returns an error unless our end of a connection is open, perhaps only to write.
func isOpen(c net.Conn) error {
	sc, ok := c.(syscall.Conn)
	if !ok {
		return errors.New("a connection without a descriptor")
	}
	rc, err := sc.SyscallConn()
	if err != nil {
		return err
	}
	var info *unix.TCPInfo
	cerr := rc.Control(func(fd uintptr) { info, err = unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO) })
	if err = errors.Join(cerr, err); err == nil && info.State != unix.BPF_TCP_ESTABLISHED && info.State != unix.BPF_TCP_CLOSE_WAIT {
		err = fmt.Errorf("the connection has ended (state %d)", info.State)
	}
	return err
}

// ask sends a request, whose head it fills in, and returns the answer's body of at least size octets, which the next
// question overwrites. The caller holds k.mu.
func (k *Kernel) ask(fd int, req []byte, kind, want uint16, size int) ([]byte, error) {
	k.seq++
	binary.NativeEndian.PutUint32(req, uint32(len(req)))
	binary.NativeEndian.PutUint16(req[4:], kind)
	binary.NativeEndian.PutUint16(req[6:], unix.NLM_F_REQUEST)
	binary.NativeEndian.PutUint32(req[8:], k.seq)
	if err := unix.Sendto(fd, req, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return nil, err
	}
	const head = unix.SizeofNlMsghdr
	for range 16 { // answers that came too late for the questions before
		n, from, err := unix.Recvfrom(fd, k.buf[:], 0)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return nil, err
		}
		a, ok := from.(*unix.SockaddrNetlink)
		if !ok || a.Pid != 0 || n < head || binary.NativeEndian.Uint32(k.buf[8:]) != k.seq {
			continue
		}
		switch got := binary.NativeEndian.Uint16(k.buf[4:]); {
		case got == unix.NLMSG_ERROR && n >= head+4:
			return nil, unix.Errno(-int32(binary.NativeEndian.Uint32(k.buf[head:])))
		case got == want && n >= head+size:
			return k.buf[head:n], nil
		default:
			return nil, fmt.Errorf("an answer of kind %d and %d octets", got, n)
		}
	}
	return nil, errors.New("no answer among those that came")
}
