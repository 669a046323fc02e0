package capture

import (
	"errors"
	"io"
	"net"
	"net/netip"
	"sync"
)

// TapClient returns a net.Conn that is c, opened by this side, with everything said
// over it recorded. Use it instead of c.
//
// Octets are recorded before they are written and after they were read, so an answer
// never comes before its question. What a Write does not get rid of is recorded all the
// same and taken for the beginning of the next one. Addresses that are not TCP's are
// replaced by ports of 192.0.2.1 and 192.0.2.2. The result hides what c can do besides
// being a net.Conn, but for CloseWrite: the engine then reads and writes it in the way
// that works for all, somewhat slower. A nil Writer returns c.
func (w *Writer) TapClient(c net.Conn) net.Conn {
	if w == nil {
		return c
	}
	return newTap(w.conn(c.LocalAddr(), c.RemoteAddr()), c, ToServer)
}

// TapServer is TapClient for a connection that this side has accepted.
func (w *Writer) TapServer(c net.Conn) net.Conn {
	if w == nil {
		return c
	}
	return newTap(w.conn(c.RemoteAddr(), c.LocalAddr()), c, ToClient)
}

// TapListener returns a listener that is l, and taps what it accepts. A nil Writer
// returns l.
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

// addrPort returns a as an address and port, or the stand-in when it is not one.
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
	ahead int        // octets recorded that the last Write did not get rid of
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

// CloseWrite records a FIN and half-closes the connection, if it can do that.
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
