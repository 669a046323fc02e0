package stream

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stag-rdma/stag/internal/peeraddr"
	"github.com/stag-rdma/stag/internal/reading"
	"github.com/stag-rdma/stag/transport/internal/memory"
	"github.com/stag-rdma/stag/transport/internal/requester"
	"github.com/stag-rdma/stag/transport/rpc"
	"github.com/stag-rdma/stag/xdr"
)

// Client is an RPC client over record-marked TCP (RFC 5531 Section 11), or any other byte stream. It is safe for
// concurrent use. Callers read for themselves where input can be noticed without a goroutine that waits for it; else one
// goroutine reads.
type Client struct {
	cfg  Config
	conn net.Conn
	w    *Writer
	ctr  *memory.Counters
	back *Conn              // serves the calls of the backward direction; nil: none
	stop context.CancelFunc // of its handlers
	done chan struct{}      // closed when nobody reads any more

	permits chan struct{} // one per call, in the backward direction of a server; else nil
	slots   *slots        // of the connection there

	role   reading.Role
	link   reading.Link    // nil: somebody else reads
	tick   *reading.Ticker // of calls with Config.CallTimeout
	in     intake          // of the holder of the role
	long   atomic.Int32    // calls whose results may go to large sinks
	over   atomic.Bool     // nobody is to read any more
	finish func()          // ends the reading, once

	mu      sync.Mutex
	xid     uint32
	pending map[uint32]*waiter
	spare   []*waiter
	timed   int           // calls with a time limit of ours
	ticks   bool          // expire is called
	owed    int           // outstanding replies, including those to cancelled calls
	settled chan struct{} // closed when there are none, for EnableRDMA; nil: nobody waits
	shifted bool          // the connection now belongs to another client
	err     error
}

// arrived is a record on its way to the caller, who owns buf.
type arrived struct {
	buf  *memory.Buffer
	msg  []byte
	err  error   // instead: the reply was not read
	of   *waiter // not nil: the result, item octets, is in the sink of that one, and not in msg, where it belongs at
	at   int
	item int
}

// waiter is a call that waits for its reply. Whoever takes it from Client.pending sets got, and completes it.
type waiter struct {
	reading.Waiter
	got              arrived
	most             int       // octets of the reply
	sink             []byte    // where the result goes, if it can be found
	until            time.Time // by Config.CallTimeout; zero: no limit of ours
	prog, vers, proc uint32
}

// maxSpare is how many waiters a client keeps.
const maxSpare = 64

// maxSkipped is the longest reply that is skipped, because nobody has room for it, to go on behind it. Nothing of it is
// kept, and calls end by their deadlines meanwhile, as while any reply comes.
const maxSkipped = 1 << 30

// NewClient returns a client of conn; Start is next.
func NewClient(conn net.Conn, cfg Config) *Client {
	c := newClient(conn, NewWriter(conn), cfg, new(memory.Counters))
	c.w.Failed = c.fail
	return c
}

// TLS returns what protects the connection, nil if nothing does.
func (c *Client) TLS() *tls.ConnectionState { return StateOf(c.conn) }

// Start has input noticed, or read.
func (c *Client) Start() {
	c.ctr.Conns.Store(1)
	if c.link = reading.NewLink(c.conn); !c.link.Shared() {
		c.link = reading.NewStream(sturdy{c.conn, c.ctr})
	}
	c.tick = reading.Process.Own(c.link.Shared())
	c.role.Init((*inlet)(c), c.link, c.tick)
	if c.link.Shared() {
		c.w.Stuck = c.stuck
		c.role.Rearm()
		return
	}
	c.role.BeginServing()
	go c.role.GoOnServing()
}

// sturdy is a connection that is not of this system. A panic of its Read costs the connection.
type sturdy struct {
	net.Conn
	ctr *memory.Counters
}

func (s sturdy) Read(p []byte) (n int, err error) {
	defer func() {
		if v := recover(); v != nil {
			s.ctr.Panics.Add(1)
			n, err = 0, panicked(v)
		}
	}()
	return s.Conn.Read(p)
}

// stuck has input read while a call is being written: who waits to write does not read, and if the server does not take
// the call because nobody takes its replies, both would wait for ever.
func (c *Client) stuck() (over func()) {
	w := new(reading.Waiter)
	w.Reset()
	go func() { _ = c.role.Wait(context.Background(), w) }()
	return func() { w.Complete(nil) }
}

// newClient returns a client for which somebody else reads, unless it is started.
func newClient(conn net.Conn, w *Writer, cfg Config, ctr *memory.Counters) *Client {
	c := &Client{
		cfg: cfg, conn: conn, w: w, ctr: ctr, tick: reading.Process,
		done: make(chan struct{}), xid: rand.Uint32(), pending: make(map[uint32]*waiter),
	}
	c.finish = sync.OnceFunc(c.finished)
	return c
}

// Do implements [rpc.Caller].
func (c *Client) Do(ctx context.Context, call *rpc.Call, reply *rpc.Reply) error {
	reply.Release()
	defer requester.Freed(call) // everything that was written is in the kernel
	if err := requester.Check(ctx, call, c.cfg.MaxPayload); err != nil {
		c.ctr.Errors.Add(1)
		return err
	}
	if err := c.room(ctx); err != nil {
		c.ctr.Errors.Add(1)
		if errors.Is(err, rpc.ErrBackwardBusy) {
			return &rpc.RPCError{Reason: rpc.ReasonBackward, Err: err}
		}
		return rpc.AsOpError(rpc.OpCall, peeraddr.Of(c.conn), err)
	}
	defer c.leaveRoom()
	xid, w, err := c.enter(ctx, call)
	if err != nil {
		c.ctr.Errors.Add(1)
		return err
	}
	defer c.leave(xid, w)
	if !c.role.Recent() {
		c.role.Begin() // before the call is written, or a watcher would be woken for its reply
	}
	sent, err := c.post(ctx, xid, w, call)
	switch {
	case !sent:
		return c.unsent(err)
	case err != nil:
		c.fail(err)
	}
	switch err = c.role.Wait(ctx, &w.Waiter); {
	case w.Done() && err == nil:
		return c.accept(&w.got, call, reply)
	case !w.Done() && ctx.Err() != nil && !c.over.Load():
		err = context.Cause(ctx)
	}
	c.ctr.Errors.Add(1)
	return rpc.AsOpError(rpc.OpCall, peeraddr.Of(c.conn), err)
}

// turn waits for the turn to write. It returns false if the time of the call is over first.
func (c *Client) turn(ctx context.Context, w *waiter) bool {
	if c.w.TryLock() {
		return true
	}
	if !w.until.IsZero() {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, w.until)
		defer cancel()
	}
	return c.w.Lock(ctx)
}

// lateWrite is how long the rest of a call may take to be written when its context has ended: half a record cannot be
// taken back. If the peer does not read it by then, the connection ends. Choice: enough for 16 MiB on a live connection.
const lateWrite = time.Second

// largeCall is how many octets of arguments may wait for a peer that does not read although it lives.
const largeCall = 64 << 10

// post writes the call in its turn, or leaves it to who is writing. If its turn has not come, it returns false and why. A
// panic, of the caller's memory or connection, leaves perhaps half a record.
func (c *Client) post(ctx context.Context, xid uint32, w *waiter, call *rpc.Call) (sent bool, err error) {
	done := false
	defer func() {
		if !done {
			c.fail(panicked("while a call was written"))
		}
	}()
	b := memory.Shared.Get(smallBuffer)
	defer b.Release()
	size := requester.Size(call)
	short := len(call.MoreItems) == 0 && c.w.Takes(size)
	if short {
		call.Resend.Posting(call)
		head := header(b.Data[:0], xid, call, requester.Before(call))
		if done = c.w.Queue(head, call.Item, memory.Pad(call.Item), requester.After(call)); done {
			c.ctr.Inline.Add(uint64(len(head) + len(call.Item) + xdr.Pad(len(call.Item)) + len(requester.After(call))))
			return true, nil
		}
	}
	if !c.turn(ctx, w) {
		done = true
		return false, cmp.Or(context.Cause(ctx), context.DeadlineExceeded)
	}
	defer c.w.Unlock()
	if c.over.Load() { // TLS or RDMA may have begun on the connection while this call waited for its turn
		done = true
		return false, c.Err()
	}
	if ctx.Done() != nil && size > largeCall { // a cancelled context as well; it costs allocations
		defer c.w.Hurry(ctx)()
	}
	if !short {
		call.Resend.Posting(call)
	}
	until := w.until
	if end, ok := ctx.Deadline(); ok {
		until = end
	}
	if !until.IsZero() {
		until = until.Add(lateWrite)
	}
	c.w.Share(size, c.ctr.InFlight.Load() > 1)
	var n int
	if len(call.MoreItems) > 0 {
		flat := memory.Shared.Get(size)
		defer flat.Release()
		n, err = c.w.WriteLocked(until, header(b.Data[:0], xid, call, nil), requester.AppendArgs(call, flat.Data[:0]), nil, nil)
	} else {
		head := header(b.Data[:0], xid, call, requester.Before(call))
		n, err = c.w.WriteLocked(until, head, call.Item, memory.Pad(call.Item), requester.After(call))
	}
	c.ctr.Inline.Add(uint64(n))
	done = true
	return true, err
}

// header appends the header of a call, and the first of its arguments.
func header(b []byte, xid uint32, call *rpc.Call, args []byte) []byte {
	h := xdr.CallHeader{
		XID: xid, RPCVers: xdr.RPCVersion,
		Prog: call.Prog, Vers: call.Vers, Proc: call.Proc, Cred: call.Cred, Verf: call.Verf,
	}
	b = xdr.AppendCall(b, &h)
	requester.Sign(call, b)
	return append(b, args...)
}

// unsent ends a call whose turn to be written has not come.
func (c *Client) unsent(err error) error {
	c.mu.Lock()
	c.settle() // no reply will come
	c.mu.Unlock()
	c.ctr.Errors.Add(1)
	return rpc.AsOpError(rpc.OpCall, peeraddr.Of(c.conn), err)
}

// errXIDInUse: an earlier transmission of the same call is outstanding.
var errXIDInUse = errors.New("XID in use")

// enter registers a call before its record is sent, with a new XID or that of an earlier transmission.
func (c *Client) enter(ctx context.Context, call *rpc.Call) (xid uint32, w *waiter, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return 0, nil, rpc.AsOpError(rpc.OpCall, peeraddr.Of(c.conn), c.err)
	}
	if tx := call.Resend; tx != nil {
		xid = tx.XID
		if c.pending[xid] != nil {
			return 0, nil, &rpc.RPCError{XID: xid, Reason: rpc.ReasonBadCall, Err: errXIDInUse}
		}
	} else {
		for c.xid++; c.pending[c.xid] != nil; c.xid++ { // one that waits very long
		}
		xid = c.xid
	}
	if k := len(c.spare); k > 0 {
		w, c.spare = c.spare[k-1], c.spare[:k-1]
	} else {
		w = new(waiter)
	}
	w.Reset()
	w.most = requester.MostReply(call, c.cfg.MaxPayload)
	w.prog, w.vers, w.proc = call.Prog, call.Vers, call.Proc
	if len(call.Sink) >= sinkMin && len(call.MoreSinks) == 0 && !call.Cred.Protected() {
		w.sink = call.Sink
		c.long.Add(1)
	}
	if _, ok := ctx.Deadline(); !ok && c.cfg.CallTimeout > 0 {
		w.until = time.Now().Add(c.cfg.CallTimeout)
		c.timed++
		if !c.ticks {
			c.ticks = true
			c.tick.Add((*expiry)(c))
		}
	}
	c.pending[xid] = w
	c.owed++
	c.ctr.InFlight.Add(1)
	c.ctr.Calls.Add(1)
	return xid, w, nil
}

// leave forgets a call. It releases a reply that came meanwhile; a later one finds no call, and nothing is written to the
// sink any more.
func (c *Client) leave(xid uint32, w *waiter) {
	c.mu.Lock()
	waits := c.pending[xid] == w
	if waits {
		delete(c.pending, xid)
	}
	if !w.until.IsZero() {
		c.timed--
	}
	c.mu.Unlock()
	c.ctr.InFlight.Add(-1)
	if w.sink != nil {
		c.long.Add(-1)
		c.in.withdraw(w)
	}
	if b := w.got.buf; b != nil {
		b.Release()
	}
	if !waits && !w.Done() {
		return // somebody is about to complete it
	}
	w.got, w.sink, w.until = arrived{}, nil, time.Time{}
	c.mu.Lock()
	if len(c.spare) < maxSpare {
		c.spare = append(c.spare, w)
	}
	c.mu.Unlock()
}

// expiry is a Client as its ticker sees it: one slow tick instead of a timer per call.
type expiry Client

// Tick implements reading.Ticked. It ends the calls whose time is over, and reports whether there are others.
func (e *expiry) Tick() bool {
	c := (*Client)(e)
	now := time.Now()
	var late []*waiter
	c.mu.Lock()
	for xid, w := range c.pending {
		if !w.until.IsZero() && now.After(w.until) {
			delete(c.pending, xid)
			late = append(late, w)
		}
	}
	c.ticks = c.timed > 0
	more := c.ticks
	c.mu.Unlock()
	for _, w := range late { // without the lock, which comes after that of the role
		w.Complete(context.DeadlineExceeded)
	}
	return more
}

// smallBuffer is room for the header of a call or reply, and for a short record.
const smallBuffer = 1024

// accept makes the caller's reply from a record.
func (c *Client) accept(r *arrived, call *rpc.Call, reply *rpc.Reply) error {
	if r.err != nil {
		c.ctr.Errors.Add(1)
		return r.err
	}
	d := xdr.NewDecoder(r.msg)
	if err := reply.Header.Parse(&d); err != nil {
		xid, _, _ := xdr.PeekXID(r.msg)
		c.ctr.Errors.Add(1)
		return &rpc.RPCError{XID: xid, Reason: rpc.ReasonBadReply, Err: err}
	}
	reply.Results = d.Rest()
	reply.Lent, r.buf = r.buf, nil
	c.ctr.Replies.Add(1)
	size := len(r.msg)
	if r.of != nil {
		size += r.item
		pos := r.at - d.Offset()
		reply.Item = call.Sink[:r.item]
		reply.Results = append(reply.Results[:pos:pos], reply.Results[pos+xdr.Pad(r.item):]...)
	} else if err := requester.TakeItem(reply, call, c.cfg.Binding); err != nil {
		return err
	}
	// As over RDMA, where what is larger does not fit the Reply chunk: the two transports refuse the same replies.
	if most := requester.MostReply(call, c.cfg.MaxPayload); size > most {
		e := &rpc.RPCError{XID: reply.Header.XID, Reason: rpc.ReasonTooBig, Err: &rpc.RoomError{Room: most, Result: size}}
		reply.Release()
		return e
	}
	return nil
}

// deliver passes a record to the call that it answers, or drops it.
func (c *Client) deliver(a arrived) {
	xid, typ, ok := xdr.PeekXID(a.msg)
	if ok && typ == xdr.MsgCall && c.back != nil {
		c.called(a.buf, a.msg)
		return
	}
	c.mu.Lock()
	w := c.pending[xid]
	c.settle()
	ok = ok && typ == xdr.MsgReply && w != nil && (a.of == nil || a.of == w)
	if ok {
		delete(c.pending, xid) // a second reply finds nothing
		w.got = a
	}
	c.mu.Unlock()
	if ok {
		w.Complete(nil)
		return
	}
	a.buf.Release()
	c.ctr.Dropped.Add(1)
}

// fail ends the connection with the first error.
func (c *Client) fail(err error) {
	c.mu.Lock()
	first := c.err == nil || errors.Is(c.err, ErrToRDMA) && !c.shifted
	if first {
		c.err = err
	}
	c.mu.Unlock()
	if first {
		c.over.Store(true)
		if c.ownsConn() {
			c.ctr.Conns.Store(0)
		}
		_ = Below(c.conn).Close() // the first error is the one that counts
		if c.link != nil {
			go c.finish() // who reads may be the caller
		}
		if c.back != nil {
			c.stop() // after that, so that no handler answers because it was told to stop
		}
	}
}

// finished takes the reading role for good, and tells all who wait.
func (c *Client) finished() {
	r := &c.role
	c.over.Store(true)
	r.Mu.Lock()
	for !r.Seize(false) {
		freed := r.Freed()
		r.Interrupt()
		r.Mu.Unlock()
		<-freed
		r.Mu.Lock()
	}
	c.link.Forget()
	r.Mu.Unlock()
	c.in.drop()
	r.Finish()
	close(c.done)
}

// Abort ends the connection; calls in flight fail with err.
func (c *Client) Abort(err error) { c.fail(err) }

// Received returns a number that grows when something arrives.
func (c *Client) Received() uint64 { return c.ctr.Replies.Load() + c.ctr.Dropped.Load() }

// Done returns a channel that is closed when nothing is read any more.
func (c *Client) Done() <-chan struct{} { return c.done }

// Err returns why the connection has ended, nil if it has not.
func (c *Client) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// Stats implements [rpc.Caller].
func (c *Client) Stats() rpc.Stats {
	s := requester.StatsOf(c.ctr)
	c.back.addStats(&s)
	return s
}

// Close implements [rpc.Caller]. It returns when nobody reads any more.
func (c *Client) Close() error {
	if t, ok := c.conn.(*tls.Conn); ok {
		_ = t.Close() // tells the peer; fail does not wait for that
	}
	c.fail(net.ErrClosed)
	<-c.done
	return nil
}
