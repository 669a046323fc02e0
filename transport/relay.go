package transport

import (
	"errors"
	"io"
	"net"
	"os"
	"time"

	"github.com/stag-rdma/stag/transport/internal/admit"
	"github.com/stag-rdma/stag/transport/internal/stream"
	"github.com/stag-rdma/stag/xdr"
)

// How many octets Relay moves at a time in each direction. While more than relayBuffer are there, it borrows a larger
// buffer, if there is one.
const (
	relayBuffer = 16 << 10
	relayLarge  = 256 << 10
)

// relayPool has the larger buffers; nil are not made yet.
var relayPool = func() chan []byte {
	c := make(chan []byte, 64)
	for range cap(c) {
		c <- nil
	}
	return c
}()

// Relay copies what arrives on each of two record-marked connections to the other, until one of
// them ends. It takes both connections, and closes them at the end. If one of them is from
// [Listen] or [DialConn], Relay connects a client on RDMA and a server on TCP, or the reverse.
// Records, XIDs, credentials and verifiers pass unchanged, so that the server's duplicate request
// cache and RPCSEC_GSS work as without Relay. When one connection ends, the other peer sees its
// own end too, and reconnects. But the server's connection stays open while the server works on a
// call for which a connection from Listen waits.
//
// Relay ends, with a [rpc.SlowPeerError], when a peer stops inside a record, and when one that owes answers gives none
// for three minutes. It ends when a server sends a client from Listen a reply to no call.
//
// The error is nil when a connection ended in an orderly way. To stop a Relay, close one of its
// connections.
func Relay(a, b net.Conn) error { return RelayChecked(a, b, nil) }

// RelayChecked is like [Relay], and ends with the error that check returns for a call from a, of which b then gets no
// more than a part. check borrows the call. If nil, all calls pass.
func RelayChecked(a, b net.Conn, check func(call *xdr.CallHeader) error) error {
	over := make(chan error, 2)
	x, y := &relayed{conn: a, check: check, owes: make(map[uint32]struct{})}, &relayed{conn: b, owes: make(map[uint32]struct{})}
	know(a, b)
	know(b, a)
	go func() { over <- x.copyTo(y) }()
	go func() { over <- y.copyTo(x) }()
	err := <-over
	_ = a.Close() // the error of the copy says more
	_ = b.Close()
	<-over
	if errors.Is(err, io.EOF) || errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

// know tells a connection of this package what is at the other side of the Relay.
func know(c, other net.Conn) {
	switch c := c.(type) {
	case *recordConn:
		c.insist()
	case *CallConn:
		if front, ok := other.(*streamConn); ok {
			c.holdFor(front)
		}
	}
}

// relayWriter returns the writer for one direction. A peer on a plain connection that does not read
// loses it after streamPatience. A connection of this package has its own deadlines below, and
// waits above them for a server that works.
func relayWriter(to net.Conn) io.Writer {
	switch to.(type) {
	case *CallConn, *recordConn:
		return plainWriter{to}
	}
	return impatientWriter{to}
}

// impatientWriter gives each Write a deadline.
type impatientWriter struct{ conn net.Conn }

// Write implements io.Writer.
func (w impatientWriter) Write(p []byte) (int, error) {
	if err := w.conn.SetWriteDeadline(time.Now().Add(stream.Patience)); err != nil {
		return 0, err
	}
	n, err := w.conn.Write(p)
	stream.Written(w.conn)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		err = admit.ErrUnread
	}
	return n, err
}

// plainWriter keeps io from using the shortcuts of a connection, which would copy in small steps.
type plainWriter struct{ io.Writer }
