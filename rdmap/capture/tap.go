package capture

import (
	"errors"
	"io"
	"net"
	"net/netip"
	"sync"
)

// TapClient returns a net.Conn that does what c does, and records everything that is read and
// written. This side has opened c. Use the result instead of c.
//
// Octets are recorded before they are written and after they are read, so that an answer never
// precedes its question. Octets that a Write fails to write are recorded all the same, and counted as
// the beginning of the next Write. Addresses that are not TCP addresses are replaced by ports of
// 192.0.2.1 and 192.0.2.2. The result has no methods of c other than those of net.Conn and CloseWrite,
// so the engine reads and writes it in the general way, which is somewhat slower. If w is nil,
// or c is an rdmap.Device, whose octets nobody here sees, TapClient returns c.
func (w *Writer) TapClient(c net.Conn) net.Conn {
	if _, card := c.(device); w == nil || card {
		return c
	}
	return newTap(w.conn(c.LocalAddr(), c.RemoteAddr()), c, ToServer)
}

// device is an rdmap.Device.
type device interface{ PostRecv(n int) }

// TapServer is like TapClient, for a connection that this side has accepted.
func (w *Writer) TapServer(c net.Conn) net.Conn {
	if _, card := c.(device); w == nil || card {
		return c
	}
	return newTap(w.conn(c.RemoteAddr(), c.LocalAddr()), c, ToClient)
}

// TapListener returns a listener that does what l does, and taps the connections that it accepts. If
// w is nil, it returns l.
func (w *Writer) TapListener(l net.Listener) net.Listener {
	if w == nil {
		return l
	}
	return &tapListener{l, w}
}

type tapListener struct {
	net.Listener
	w *Writer
}

func (l *tapListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return l.w.TapServer(c), nil
}

// conn begins a connection between two addresses of any kind.
func (w *Writer) conn(client, server net.Addr) *Conn {
	port := 49152 + uint16(w.conns.Load()%16384)
	return w.Conn(
		addrPort(client, netip.AddrPortFrom(netip.AddrFrom4([4]byte{192, 0, 2, 1}), port)),
		addrPort(server, netip.AddrPortFrom(netip.AddrFrom4([4]byte{192, 0, 2, 2}), 20049)))
}

// addrPort returns the address and port of a, or standIn if a is not a TCP address.
func addrPort(a net.Addr, standIn netip.AddrPort) netip.AddrPort {
	if t, ok := a.(*net.TCPAddr); ok && t.AddrPort().IsValid() {
		return t.AddrPort()
	}
	return standIn
}

// tap is a net.Conn with a recording beside it.
type tap struct {
	net.Conn
	rec *Conn
	out Dir

	mu    sync.Mutex // one Write at a time
	ahead int        // octets that are recorded but not yet written
}

var _ net.Conn = (*tap)(nil)

func newTap(rec *Conn, c net.Conn, out Dir) *tap { return &tap{Conn: c, rec: rec, out: out} }

func (t *tap) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.rec.Write(t.out, p[min(t.ahead, len(p)):])
	t.ahead = max(t.ahead, len(p))
	n, err := t.Conn.Write(p)
	t.ahead -= n
	return n, err
}

func (t *tap) Read(p []byte) (int, error) {
	n, err := t.Conn.Read(p)
	t.rec.Write(1-t.out, p[:n])
	if errors.Is(err, io.EOF) {
		t.rec.CloseWrite(1 - t.out)
	}
	return n, err
}

// CloseWrite records a FIN and half-closes the connection, if the connection can do that.
func (t *tap) CloseWrite() error {
	c, ok := t.Conn.(interface{ CloseWrite() error })
	if !ok {
		return errors.ErrUnsupported
	}
	t.rec.CloseWrite(t.out)
	return c.CloseWrite()
}

// Close records the end of the connection and closes it.
func (t *tap) Close() error {
	t.rec.CloseWrite(t.out)
	t.rec.CloseWrite(1 - t.out)
	return t.Conn.Close()
}
