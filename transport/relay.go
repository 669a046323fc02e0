package transport

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"time"

	"github.com/stag-rdma/stag/transport/internal/admit"
	"github.com/stag-rdma/stag/transport/internal/stream"
	"github.com/stag-rdma/stag/transport/rpc"
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

// answerTime is how long a peer of a Relay that owes answers may give none. Clients that still want one ask again, over
// another connection.
const answerTime = 3 * time.Minute

// maxOwed is how many calls a Relay remembers for each peer: more than one has at a time.
const maxOwed = 4096

// relayed is a connection of a Relay. One goroutine reads it, and looks at the records that pass, without keeping them.
type relayed struct {
	conn net.Conn

	// Where the stream is.
	mark [stream.MarkSize]byte
	have int     // octets of mark
	left int     // octets of the fragment that are missing
	last bool    // the fragment ends its record
	head [8]byte // of the record: its XID, and whether it is a call
	seen int     // octets of head

	check func(*xdr.CallHeader) error // of its calls; nil: all pass
	cred  []byte                      // of a call, if there is a check: all up to its credential

	mu   sync.Mutex
	owes map[uint32]struct{} // XIDs of calls that it has not answered
	fell time.Time           // when it has answered one, or has begun to owe
	rest time.Time           // when the record that has begun must be complete; zero: none has
	set  time.Time           // the deadline of its Read, perhaps too early; zero: none
}

// copyTo copies what arrives to another connection.
func (x *relayed) copyTo(to *relayed) error {
	w, small := relayWriter(to.conn), make([]byte, relayBuffer)
	buf := small
	defer func() {
		if len(buf) > len(small) {
			relayPool <- buf
		}
	}()
	for {
		n, err := x.conn.Read(buf)
		if n > 0 {
			if err := x.look(buf[:n], to); err != nil {
				return err // before the octets are passed on that make the call complete
			}
			if _, err := w.Write(buf[:n]); err != nil {
				return err
			}
		}
		if err != nil {
			if err = x.late(err); err != nil {
				return err
			}
		}
		switch {
		case n == len(small) && len(buf) == len(small):
			select {
			case buf = <-relayPool:
				if buf == nil {
					buf = make([]byte, relayLarge)
				}
			default:
			}
		case n < len(buf) && len(buf) > len(small):
			relayPool <- buf
			buf = small
		}
	}
}

// look follows the records in p, which to gets next. It returns an error if to must not get them.
func (x *relayed) look(p []byte, to *relayed) error {
	x.mu.Lock()
	rest := x.rest
	x.mu.Unlock()
	for len(p) > 0 {
		if x.have < len(x.mark) {
			if rest.IsZero() {
				rest = time.Now().Add(stream.Patience)
			}
			n := copy(x.mark[x.have:], p)
			p = p[n:]
			if x.have += n; x.have < len(x.mark) {
				break
			}
			mark := binary.BigEndian.Uint32(x.mark[:])
			x.last, x.left = mark>>31 == 1, int(mark&xdr.MaxFragment)
			rest = rest.Add(time.Duration(x.left/admit.MinRate) * time.Second)
		}
		n := min(x.left, len(p))
		if x.seen < len(x.head) {
			if x.seen += copy(x.head[x.seen:], p[:n]); x.seen == len(x.head) {
				x.begins(to)
			}
		}
		if err := x.examine(p[:n], x.last && n == x.left); err != nil {
			return err
		}
		p = p[n:]
		if x.left -= n; x.left > 0 {
			break
		}
		if x.have = 0; x.last {
			x.cred, x.seen, rest = x.cred[:0], 0, time.Time{}
		}
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.rest = rest
	x.arm()
	return nil
}

// Octets of a call before the body of its credential, with its length, and of the largest body (RFC 5531 Section 9).
const (
	credAt  = 32
	maxCred = 400
)

// examine checks the call of which p comes next, as soon as its credential is there; ends says that nothing follows.
func (x *relayed) examine(p []byte, ends bool) error {
	if x.check == nil {
		return nil
	}
	const whole = credAt + maxCred + 8 // with an empty verifier
	was := len(x.cred)
	x.cred = append(x.cred, p[:min(len(p), whole-was)]...)
	want := credAt
	if len(x.cred) >= credAt {
		want += int(min(binary.BigEndian.Uint32(x.cred[credAt-4:]), maxCred)+3) &^ 3
	}
	if was >= want || len(x.cred) < want && !ends {
		return nil // it was checked, or is not there yet
	}
	if len(x.cred) >= 8 && binary.BigEndian.Uint32(x.cred[4:]) != uint32(xdr.MsgCall) {
		return nil
	}
	var h xdr.CallHeader
	d := xdr.NewDecoder(append(x.cred[:min(len(x.cred), want)], 0, 0, 0, 0, 0, 0, 0, 0))
	if err := h.Parse(&d); err != nil {
		return fmt.Errorf("transport: a call without a credential: %w", err)
	}
	return x.check(&h)
}

// begins notes the record that has begun.
func (x *relayed) begins(to *relayed) {
	xid := binary.BigEndian.Uint32(x.head[:])
	if binary.BigEndian.Uint32(x.head[4:]) == uint32(xdr.MsgCall) {
		to.mu.Lock()
		defer to.mu.Unlock()
		if len(to.owes) == 0 {
			to.fell = time.Now()
		}
		if len(to.owes) < maxOwed {
			to.owes[xid] = struct{}{}
		}
		to.arm()
		return
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if _, ok := x.owes[xid]; ok {
		delete(x.owes, xid)
		x.fell = time.Now()
	}
}

// due returns when there must be more; zero: whenever it comes. The caller holds x.mu.
func (x *relayed) due() time.Time {
	if len(x.owes) == 0 {
		return x.rest
	}
	if t := x.fell.Add(answerTime); x.rest.IsZero() || t.Before(x.rest) {
		return t
	}
	return x.rest
}

// arm sees to it that Read ends in time. The caller holds x.mu.
func (x *relayed) arm() {
	if t := x.due(); !t.IsZero() && (x.set.IsZero() || t.Before(x.set)) {
		x.set = t
		_ = x.conn.SetReadDeadline(t) // it fails if the connection is over: then Read says so
	}
}

// late looks at an error of Read. It returns nil if it was only a deadline that has moved meanwhile.
func (x *relayed) late(err error) error {
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		return err
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	now := time.Now()
	if x.set.IsZero() || now.Before(x.set) {
		return err // not ours
	}
	if t := x.due(); t.IsZero() || now.Before(t) {
		x.set = t
		return x.conn.SetReadDeadline(t)
	}
	if !x.rest.IsZero() && !now.Before(x.rest) {
		return &rpc.SlowPeerError{What: "has stopped inside a record"}
	}
	return &rpc.SlowPeerError{What: "has not answered calls for 3 minutes"}
}
