package stream

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stag-rdma/stag/internal/peeraddr"
	"github.com/stag-rdma/stag/rdmap/verbs"
	"github.com/stag-rdma/stag/transport/internal/admit"
	"github.com/stag-rdma/stag/transport/internal/execute"
	"github.com/stag-rdma/stag/transport/internal/memory"
	"github.com/stag-rdma/stag/transport/internal/requester"
	"github.com/stag-rdma/stag/transport/rpc"
	"github.com/stag-rdma/stag/xdr"
)

// Conn is the server's end of a record-marked connection. One goroutine reads and runs short
// calls; the others have goroutines of their own.
type Conn struct {
	s     *Service
	h     rpc.Handler
	conn  net.Conn
	at    *execute.Origin
	input io.Reader // conn, after the octets that were read from it before
	peer  *admit.Peer
	w     *Writer
	slots slots
	wg    sync.WaitGroup
	both  bool                 // RDMA may be enabled between two records
	ahead []byte               // octets that were read after the last record, if so
	tls   *tls.ConnectionState // nil: the connection is in clear
	probe uint32               // XID of the call that asks for TLS

	in, out atomic.Uint64 // octets

	backward *rpc.Backward // nil: switched off
	waiting  atomic.Int64  // at a client: backward calls received and not answered

	stopped chan struct{} // closed when no more calls are to be read
	stop    sync.Once

	mu       sync.Mutex
	draining bool
	gone     bool
	cut      error   // why the connection was cut
	caller   *Client // of the backward direction, once it was used
}

var _ admit.Mover = (*Conn)(nil)

// NewConn returns a connection to serve, which state protects, and from which the octets in first have been read. With
// both, RDMA may be enabled between two records.
func NewConn(s *Service, h rpc.Handler, conn net.Conn, state *tls.ConnectionState, first []byte, both bool) *Conn {
	c := &Conn{
		s: s, h: h, conn: conn, tls: state, w: NewWriter(conn), both: both,
		slots: newSlots(s.cfg.Credits), stopped: make(chan struct{}),
	}
	if s.cfg.BackwardCredits > 0 {
		c.backward = rpc.NewBackward(c.backwardCaller)
	}
	c.w.Failed = c.unwritten
	c.input = conn
	if r := newRawReader(conn); r != nil {
		c.input = r
	}
	if len(first) > 0 {
		c.input = io.MultiReader(bytes.NewReader(first), c.input)
	}
	return c
}

// Serve serves the connection until its stream ends, or until RDMA is enabled or TLS asked for; then the error is
// ErrToRDMA or ErrToTLS, and the connection stays open.
func (c *Conn) Serve(turn execute.Turn) error {
	s := c.s
	keep := false
	defer func() {
		if !keep {
			_ = c.conn.Close() // all replies were sent
		}
	}()
	var err error
	if c.peer, err = s.gate.Enter(c.conn.RemoteAddr(), c); err != nil {
		return rpc.AsOpError(rpc.OpAccept, peeraddr.Of(c.conn), err)
	}
	defer c.peer.Leave()
	if err := s.hooks.Add(c); err != nil {
		return err
	}
	s.ctr.Accepted.Add(1)
	defer s.hooks.Drop(c)
	c.at = s.exec.Enter(Below(c.conn), turn)
	defer s.exec.Leave(c.at)
	begun := time.Now()
	network := NameOf("tcp", c.tls)
	s.gate.Came(peeraddr.Of(c.conn), network)
	err = c.read()
	c.wg.Wait()
	c.w.Lock(context.Background()) // the last replies may still be queued
	c.w.Unlock()
	switch {
	case c.isDraining():
		s.gate.Went(peeraddr.Of(c.conn), network, begun, s.hooks.Closed)
		return nil
	case errors.Is(err, ErrToRDMA), errors.Is(err, ErrToTLS) && c.starttls():
		s.gate.Went(peeraddr.Of(c.conn), network, begun, err)
		keep = true
		return err
	}
	err = s.gate.Ended(rpc.AsOpError(rpc.OpServe, peeraddr.Of(c.conn), requester.IgnoreEnd(err)))
	s.gate.Went(peeraddr.Of(c.conn), network, begun, err)
	return err
}

// Ahead returns the octets that were read after the last record, when Serve has returned ErrToRDMA.
func (c *Conn) Ahead() []byte { return c.ahead }

// TLS returns what protects the connection, nil if nothing does.
func (c *Conn) TLS() *tls.ConnectionState { return c.tls }

// Refuse ends the connection because of err.
func (c *Conn) Refuse(err error) {
	c.mu.Lock()
	c.cut = err
	c.mu.Unlock()
	c.Abort()
}

// RemoteAddr returns the address of the client.
func (c *Conn) RemoteAddr() net.Addr { return c.conn.RemoteAddr() }

// ended tells all who wait that nobody reads anymore, and returns why. It runs in the goroutine that has read
// last: the one that began may be in a handler that waits for a reply.
func (c *Conn) ended(err error) error {
	if e, ok := errors.AsType[*net.OpError](err); ok && !e.Timeout() {
		c.at.End()
	}
	c.stop.Do(func() { close(c.stopped) })
	c.mu.Lock()
	if c.cut != nil {
		err = c.cut
	}
	c.mu.Unlock()
	c.endBackward(err)
	return err
}

// Read reads from the peer.
func (c *Conn) Read(p []byte) (int, error) {
	n, err := c.input.Read(p)
	c.in.Add(uint64(n))
	return n, err
}

// Moved implements admit.Mover.
func (c *Conn) Moved(f admit.Flow) uint64 {
	acked, received, ok := moved(Below(c.conn))
	switch {
	case f == admit.Arriving && c.tls != nil && ok:
		return received // of a record of TLS we see nothing before its last octet
	case f == admit.Arriving:
		return c.in.Load()
	case ok:
		return acked
	}
	return c.out.Load()
}

// Cut implements admit.Mover.
func (c *Conn) Cut(f admit.Flow) {
	err := admit.ErrUnread
	if f == admit.Arriving {
		err = errHalfRecord
	}
	c.Refuse(err)
}

// errHalfRecord ends a connection that keeps a call waiting by the rest of its record.
var errHalfRecord = &rpc.SlowPeerError{What: "began a record and does not finish it, or too slowly"}

// setReadDeadline sets the read deadline, unless drain has set one.
func (c *Conn) setReadDeadline(t time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.draining {
		_ = c.conn.SetReadDeadline(t) // fails only on a closed connection
	}
}

// pendingCall is one call from its record to its reply.
type pendingCall struct {
	c    *Conn
	b    *memory.Buffer // the record
	hold admit.Ticket
	room int        // octets of hold for the reply
	t    rpc.Traits // at first of what its head says
	// short: it may run in the goroutine that reads. whole: that was decided by the head, which was all of it.
	// apart: it is opened by the goroutine that runs it.
	short, whole, apart bool
	req                 rpc.Request
	rsp                 *rpc.Response
}

// replyOctets parses the beginning of a call, and returns how many octets its reply may take, beyond what
// every call needs. Where the binding does not know, it is what the replies to such calls have taken.
func (x *pendingCall) replyOctets(head []byte) int {
	x.req = rpc.Request{RemoteAddr: x.c.conn.RemoteAddr(), Network: "tcp", TLS: x.c.tls, Backward: x.c.backward}
	d := xdr.NewDecoder(head)
	if x.req.CallHeader.Parse(&d) != nil {
		return 0
	}
	x.req.Args = d.Rest()
	r, cfg := &x.req, x.c.s.cfg
	x.t = rpc.Describe(x.c.h, r)
	n := x.pace().Largest()
	if !r.Cred.Protected() { // otherwise the arguments may be encrypted
		if rest, item, ok := cfg.Binding.MaxResults(r.Prog, r.Vers, r.Proc, r.Args); ok {
			n = min(rest+item, cfg.MaxPayload)
		}
	}
	if n <= smallRecord {
		return 0
	}
	return n
}

// received parses a record as a call. It returns false if it is none.
func (x *pendingCall) received(msg []byte) bool {
	c := x.c
	x.rsp = responses.get()
	opens := c.s.exec.Opens(&x.req.CallHeader) // parsed from its beginning
	if x.req.Parse(msg, c.s.cfg.AnyCred || opens, x.rsp) != nil {
		c.s.ctr.Dropped.Add(1) // RFC 5531 Section 9 has no reply to this
		return false
	}
	c.s.ctr.Calls.Add(1)
	if c.s.cfg.NoClear && c.tls == nil && !x.rsp.Refused() {
		x.rsp.Refuse(xdr.ReplyHeader{XID: x.req.XID, Denied: true, Reject: xdr.AuthError, AuthStat: xdr.AuthTooWeak})
	}
	if !opens || x.rsp.Refused() {
		return true
	}
	if x.apart = c.s.exec.OpensApart(&x.req.CallHeader, len(x.req.Args)); x.apart {
		return true
	}
	return c.s.exec.Open(&x.req, x.rsp)
}

// describe asks for the traits of a call, which are known by its plain arguments.
func (x *pendingCall) describe() {
	x.t = rpc.Traits{}
	if g := x.req.GSS; g == nil || !g.Answered() {
		x.t = rpc.Describe(x.c.h, &x.req)
	}
}

// lacks takes the memory that the handler of a call needs, and what protects its reply, or refuses the call for good. If it
// has to wait, it returns for how many octets.
func (x *pendingCall) lacks() int {
	s := x.c.s
	n := x.t.Memory + execute.Protecting(&x.req, s.cfg.Binding, x.room, s.cfg.MaxPayload)
	if n <= admit.Page || x.rsp.Refused() || s.gate.Refuses(&x.req, x.rsp, n+x.hold.Octets()) || x.hold.Try(n, false) {
		return 0
	}
	return n
}

// open opens a call beside the goroutine that reads. It returns false if the call gets no answer.
func (x *pendingCall) open() bool {
	if !x.c.s.exec.Open(&x.req, x.rsp) {
		return false
	}
	x.describe()
	n := x.lacks()
	granted := make(grant, 1)
	if n == 0 || x.hold.Acquire(n, false, granted) {
		return true
	}
	select { // replies of the client are read meanwhile
	case <-granted:
		return true
	case <-x.c.stopped:
	}
	if !x.hold.Withdraw() {
		<-granted
	}
	return false
}

// serve runs the call and sends its reply.
func (x *pendingCall) serve() {
	s := x.c.s
	s.ctr.InFlight.Add(1)
	defer x.c.recovered(nil)
	defer x.end()
	defer s.ctr.InFlight.Add(-1)
	if x.apart && !x.open() {
		return
	}
	begun := time.Now()
	answer := s.exec.Execute(s.ctx, x.c.h, &x.t, &x.req, x.rsp, x.c.at)
	x.pace().Ran(time.Since(begun), s.cfg.HandlerLimit)
	if answer {
		x.reply()
	}
}

// recovered is deferred around what one record does: a panic there ends this connection, and is the error *err if err is
// not nil. A handler's never comes here.
func (c *Conn) recovered(err *error) {
	v := recover()
	if v == nil {
		return
	}
	why := panicked(v)
	c.s.exec.Broken(v, why)
	c.mu.Lock()
	c.cut = why
	c.mu.Unlock()
	c.at.End()
	_ = Below(c.conn).Close() // ends the reading goroutine, which reports
	if err != nil {
		*err = why
	}
}

// panicked returns the error of a connection that ends because of the panic v.
func panicked(v any) error { return fmt.Errorf("%w: %v\n%s", verbs.ErrPanic, v, debug.Stack()) }

func (x *pendingCall) pace() *execute.Pace { return x.c.s.exec.PaceOf(&x.t, &x.req) }

// end releases what a call holds.
func (x *pendingCall) end() {
	defer x.c.wg.Done() // whatever else panics: Serve waits for it
	defer x.c.slots.give()
	if !x.hold.Empty() {
		x.hold.Release()
	}
	if x.b != nil {
		x.b.Release()
	}
	if x.rsp != nil {
		responses.put(x.rsp)
	}
}

// reply sends the reply's record; an error of the socket ends the connection.
func (x *pendingCall) reply() {
	c, resp := x.c, x.rsp
	size := resp.Size()
	if size > smallRecord {
		x.pace().Sent(size)
	}
	if size > smallRecord || x.hold.Octets() > 0 {
		c.s.gate.Awaits(&x.hold, admit.Leaving, max(size-x.room, 0))
	}
	hb := memory.Shared.Get(smallBuffer)
	defer hb.Release()
	h := resp.Header(x.req.XID)
	head := xdr.AppendReply(hb.Data[:0], &h)
	c.s.ctr.Replies.Add(1) // first: the client may act on it before write returns
	var n int
	var err error
	others := c.slots.others()
	switch {
	case resp.HasResults() && len(resp.Lent.Items) == 1: // send the data without a copy
		it := resp.Lent.Items[0]
		head = append(head, resp.Results[:it.Pos]...)
		n, err = c.w.Write(others, head, it.Data, memory.Pad(it.Data), resp.Results[it.Pos:])
	default:
		n, err = c.w.Write(others, resp.AppendResults(head), nil, nil, nil)
	}
	if err != nil {
		c.unwritten(err)
		return
	}
	c.out.Add(uint64(n))
	c.s.ctr.Inline.Add(uint64(n))
}

// unwritten ends the connection, since a reply cannot be written.
func (c *Conn) unwritten(error) {
	c.s.ctr.Errors.Add(1)
	c.at.End()
	_ = Below(c.conn).Close() // ends the reading goroutine, which reports
}

func (c *Conn) isDraining() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.draining
}

// Drain stops reading; calls that have been read are answered.
func (c *Conn) Drain() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.draining = true
	_ = c.conn.SetReadDeadline(time.Unix(1, 0)) // fails only on a closed connection
	c.stop.Do(func() { close(c.stopped) })
}

// Abort closes the connection.
func (c *Conn) Abort() {
	_ = Below(c.conn).Close()
	c.stop.Do(func() { close(c.stopped) })
}
