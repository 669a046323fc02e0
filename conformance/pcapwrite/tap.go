package pcapwrite

import (
	"net"
	"net/netip"
	"sync"
)

// Tap returns a net.Conn that is c with everything said over it recorded in w. client tells which
// end c is: true for the side that opened the connection. Addresses that are not TCP addresses
// are replaced by 192.0.2.1:1000 (the client) and 192.0.2.2:20049.
//
// Octets are recorded before they are written and after they were read, so an answer never comes
// before its question. Recording errors are kept in [Writer.Err] and do not disturb c. The
// returned Conn hides c's concrete type, and with it what a user would do only on a TCP connection.
func (w *Writer) Tap(c net.Conn, client bool) net.Conn {
	local, remote := c.LocalAddr(), c.RemoteAddr()
	t := &tap{Conn: c, out: ToServer}
	if !client {
		local, remote = remote, local
		t.out = ToClient
	}
	t.rec = w.Conn(addrPort(local, "192.0.2.1:1000"), addrPort(remote, "192.0.2.2:20049"))
	return t
}

// addrPort returns a as an address and port, or the stand-in when it is not one.
func addrPort(a net.Addr, standIn string) netip.AddrPort {
	if t, ok := a.(*net.TCPAddr); ok && t.AddrPort().IsValid() {
		return t.AddrPort()
	}
	return netip.MustParseAddrPort(standIn)
}

// tap is a net.Conn with a recording beside it.
type tap struct {
	net.Conn
	rec  *Conn
	out  Dir
	once sync.Once
}

var _ net.Conn = (*tap)(nil)

func (t *tap) Write(p []byte) (int, error) {
	_ = t.rec.Write(t.out, p) // kept in Writer.Err
	return t.Conn.Write(p)
}

func (t *tap) Read(p []byte) (int, error) {
	n, err := t.Conn.Read(p)
	_ = t.rec.Write(1-t.out, p[:n])
	return n, err
}

// CloseWrite records a FIN and half-closes the connection if it can do that.
func (t *tap) CloseWrite() error {
	_ = t.rec.CloseWrite(t.out)
	if c, ok := t.Conn.(interface{ CloseWrite() error }); ok {
		return c.CloseWrite()
	}
	return nil
}

// Close records the end of the connection and closes it.
func (t *tap) Close() error {
	t.once.Do(func() { _ = t.rec.Close() })
	return t.Conn.Close()
}
