package stream

import (
	"bufio"
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"time"

	"github.com/stag-rdma/stag/internal/peeraddr"
	"github.com/stag-rdma/stag/transport/internal/memory"
	"github.com/stag-rdma/stag/transport/internal/requester"
	"github.com/stag-rdma/stag/transport/rpc"
	"github.com/stag-rdma/stag/xdr"
)

// Client is an RPC client over record-marked TCP (RFC 5531 Section 11), or
// any other byte stream. It is safe for concurrent use. One goroutine reads.
type Client struct {
	cfg  Config
	conn net.Conn
	w    *Writer
	ctr  *memory.Counters
	back *Conn              // serves the calls of the backward direction; nil: none
	stop context.CancelFunc // of its handlers
	done chan struct{}      // closed when the reader has ended

	permits chan struct{} // one per call, in the backward direction of a server; else nil
	slots   *slots        // of the connection there

	mu      sync.Mutex
	xid     uint32
	pending map[uint32]*waiter
	owed    int           // outstanding replies, including those to cancelled calls
	settled chan struct{} // closed when there are none, for EnableRDMA; nil: nobody waits
	shifted bool          // the connection now belongs to another client
	err     error
}

// arrived is a record on its way to the caller, which owns buf.
type arrived struct {
	buf *memory.Buffer
	msg []byte
	err error // instead: the reply was not read
}

// waiter is a call that waits for its reply.
type waiter struct {
	reply chan arrived
	most  int // octets of the reply
}

// maxSkipped is the longest reply that is skipped, because nobody has room for it, to go on behind it. Nothing of it is
// kept, and calls end by their deadlines meanwhile, as while any reply comes.
const maxSkipped = 1 << 30

// NewClient returns a client of conn; Start is next.
func NewClient(conn net.Conn, cfg Config) *Client {
	return newClient(conn, NewWriter(conn), cfg, new(memory.Counters))
}

// TLS returns what protects the connection, nil if nothing does.
func (c *Client) TLS() *tls.ConnectionState { return StateOf(c.conn) }

// Start reads, in a goroutine.
func (c *Client) Start() {
	c.ctr.Conns.Store(1)
	go c.read()
}

// newClient returns a client for which somebody else reads.
func newClient(conn net.Conn, w *Writer, cfg Config, ctr *memory.Counters) *Client {
	return &Client{
		cfg: cfg, conn: conn, w: w, ctr: ctr,
		done: make(chan struct{}), xid: rand.Uint32(), pending: make(map[uint32]*waiter),
	}
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
	ch := make(chan arrived, 1)
	xid, err := c.enter(call.Resend, &waiter{ch, requester.MostReply(call, c.cfg.MaxPayload)})
	if err != nil {
		c.ctr.Errors.Add(1)
		return err
	}
	defer c.leave(xid, ch)
	ctx, cancel := c.deadline(ctx)
	defer cancel()
	if !c.w.Lock(ctx) {
		return c.unsent(context.Cause(ctx))
	}
	select {
	case <-c.done: // TLS or RDMA may have begun on the connection while this call waited for its turn
		c.w.Unlock()
		return c.unsent(c.Err())
	default:
	}
	if err := c.post(ctx, xid, call); err != nil {
		c.fail(err)
	}
	select {
	case r := <-ch:
		return c.accept(r, call, reply)
	case <-c.done:
		select {
		case r := <-ch: // the reply beat the end of the connection
			return c.accept(r, call, reply)
		default:
		}
		c.ctr.Errors.Add(1)
		return rpc.AsOpError(rpc.OpCall, peeraddr.Of(c.conn), c.Err())
	case <-ctx.Done():
		c.ctr.Errors.Add(1)
		return rpc.AsOpError(rpc.OpCall, peeraddr.Of(c.conn), context.Cause(ctx))
	}
}

// lateWrite is how long the rest of a call may take to be written when its context has ended: half a record cannot be
// taken back. If the peer does not read it by then, the connection ends. Choice: enough for 16 MiB on a live connection.
const lateWrite = time.Second

// largeCall is how many octets of arguments may wait for a peer that does not read although it lives.
const largeCall = 64 << 10

// post writes the call in its turn. A panic, of the caller's memory or connection, leaves perhaps half a record.
func (c *Client) post(ctx context.Context, xid uint32, call *rpc.Call) error {
	done := false
	defer c.w.Unlock()
	if requester.Size(call) > largeCall { // a cancelled context as well; it costs allocations
		told := make(chan struct{})
		stop := context.AfterFunc(ctx, func() {
			_ = c.conn.SetWriteDeadline(time.Now().Add(lateWrite)) // fails only on a closed connection
			close(told)
		})
		defer func() {
			if !stop() {
				<-told // not into the turn of another call
			}
		}()
	}
	defer func() {
		if !done {
			c.fail(panicked("while a call was written"))
		}
	}()
	call.Resend.Posting(call)
	var until time.Time
	if end, ok := ctx.Deadline(); ok {
		until = end.Add(lateWrite)
	}
	err := c.send(until, xid, call)
	done = true
	return err
}

// unsent ends a call whose turn to be written has not come.
func (c *Client) unsent(err error) error {
	c.mu.Lock()
	c.settle() // no reply will come
	c.mu.Unlock()
	c.ctr.Errors.Add(1)
	return rpc.AsOpError(rpc.OpCall, peeraddr.Of(c.conn), err)
}

// deadline applies Config.CallTimeout to a context without a deadline.
func (c *Client) deadline(ctx context.Context) (context.Context, context.CancelFunc) {
	if _, ok := ctx.Deadline(); ok || c.cfg.CallTimeout <= 0 {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, c.cfg.CallTimeout)
}

// errXIDInUse: an earlier transmission of the same call is outstanding.
var errXIDInUse = errors.New("XID in use")

// enter registers a call before its record is sent, with a new XID or that of an earlier transmission.
func (c *Client) enter(tx *rpc.Transmission, w *waiter) (xid uint32, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return 0, rpc.AsOpError(rpc.OpCall, peeraddr.Of(c.conn), c.err)
	}
	if tx != nil {
		xid = tx.XID
		if c.pending[xid] != nil {
			return 0, &rpc.RPCError{XID: xid, Reason: rpc.ReasonBadCall, Err: errXIDInUse}
		}
	} else {
		for c.xid++; c.pending[c.xid] != nil; c.xid++ { // one that waits very long
		}
		xid = c.xid
	}
	c.pending[xid] = w
	c.owed++
	c.ctr.InFlight.Add(1)
	c.ctr.Calls.Add(1)
	return xid, nil
}

// leave forgets a call. It releases a reply that came meanwhile; a later one finds no call.
func (c *Client) leave(xid uint32, ch chan arrived) {
	c.mu.Lock()
	delete(c.pending, xid)
	c.mu.Unlock()
	c.ctr.InFlight.Add(-1)
	select {
	case r := <-ch:
		if r.buf != nil {
			r.buf.Release()
		}
	default:
	}
}

// send writes the call's record. The caller has locked c.w.
func (c *Client) send(until time.Time, xid uint32, call *rpc.Call) error {
	h := xdr.CallHeader{
		XID: xid, RPCVers: xdr.RPCVersion,
		Prog: call.Prog, Vers: call.Vers, Proc: call.Proc, Cred: call.Cred, Verf: call.Verf,
	}
	b := c.poolGet()
	defer b.Release()
	head := xdr.AppendCall(b.Data[:0], &h)
	requester.Sign(call, head)
	if len(call.MoreItems) > 0 {
		flat := memory.Shared.Get(requester.Size(call))
		defer flat.Release()
		n, err := c.w.WriteLocked(until, head, requester.AppendArgs(call, flat.Data[:0]), nil, nil)
		c.ctr.Inline.Add(uint64(n))
		return err
	}
	head = append(head, requester.Before(call)...)
	n, err := c.w.WriteLocked(until, head, call.Item, memory.Pad(call.Item), requester.After(call))
	c.ctr.Inline.Add(uint64(n))
	return err
}

// smallBuffer is room for the header of a call or reply, and for a short record.
const smallBuffer = 1024

func (c *Client) poolGet() *memory.Buffer { return memory.Shared.Get(smallBuffer) }

// accept makes the caller's reply from a record.
func (c *Client) accept(r arrived, call *rpc.Call, reply *rpc.Reply) error {
	if r.err != nil {
		c.ctr.Errors.Add(1)
		return r.err
	}
	d := xdr.NewDecoder(r.msg)
	if err := reply.Header.Parse(&d); err != nil {
		xid, _, _ := xdr.PeekXID(r.msg)
		r.buf.Release()
		c.ctr.Errors.Add(1)
		return &rpc.RPCError{XID: xid, Reason: rpc.ReasonBadReply, Err: err}
	}
	reply.Results = d.Rest()
	reply.Lent = r.buf
	c.ctr.Replies.Add(1)
	if err := requester.TakeItem(reply, call, c.cfg.Binding); err != nil {
		return err
	}
	// As over RDMA, where what is larger does not fit the Reply chunk: the two transports refuse the same replies.
	if most := requester.MostReply(call, c.cfg.MaxPayload); len(r.msg) > most {
		e := &rpc.RPCError{XID: reply.Header.XID, Reason: rpc.ReasonTooBig, Err: &rpc.RoomError{Room: most, Result: len(r.msg)}}
		reply.Release()
		return e
	}
	return nil
}

// read delivers records until the stream ends.
func (c *Client) read() {
	defer close(c.done)
	defer func() {
		if v := recover(); v != nil {
			c.ctr.Panics.Add(1)
			c.fail(panicked(v))
		}
	}()
	br := bufio.NewReaderSize(c.conn, 64<<10)
	rr := xdr.NewRecordReader(br, c.cfg.MaxPayload)
	hint := smallBuffer
	for {
		b, msg, err := Read(rr, &memory.Shared, hint)
		if err != nil {
			if err == io.EOF && c.Received() == 0 { //nolint:errorlint // as Read returns it
				err = fmt.Errorf("the server has closed the connection without a word (does it speak RDMA alone on this port?): %w", err)
			}
			if errors.Is(err, xdr.ErrRange) {
				if err = c.skip(rr); err == nil {
					continue
				}
			}
			if !c.shifts(err, br.Buffered()+len(rr.Buffered())) {
				c.fail(err)
			}
			return
		}
		hint = len(msg)
		c.ctr.Inline.Add(uint64(len(msg)))
		c.deliver(b, msg)
	}
}

// skip steps over a reply that is larger than Config.MaxPayload, and fails its call.
func (c *Client) skip(rr *xdr.RecordReader) error {
	head, size, err := rr.Skip(maxSkipped)
	xid, typ, ok := xdr.PeekXID(head)
	if err != nil || !ok || typ != xdr.MsgReply {
		return fmt.Errorf("a reply of %d octets or more, and Config.MaxPayload is %d: %w", size, c.cfg.MaxPayload, cmp.Or(err, xdr.ErrRange))
	}
	c.ctr.Dropped.Add(1)
	c.refuse(xid, &rpc.RoomError{Room: c.cfg.MaxPayload, Result: size})
	return nil
}

// deliver passes a record to the call that it answers, or drops it.
func (c *Client) deliver(b *memory.Buffer, msg []byte) {
	xid, typ, ok := xdr.PeekXID(msg)
	if ok && typ == xdr.MsgCall && c.back != nil {
		c.called(b, msg)
		return
	}
	c.mu.Lock()
	w := c.pending[xid]
	c.settle()
	if ok && typ == xdr.MsgReply && w != nil {
		delete(c.pending, xid) // a second reply finds nothing
		w.reply <- arrived{buf: b, msg: msg}
		c.mu.Unlock()
		return
	}
	c.mu.Unlock()
	b.Release()
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
		if c.ownsConn() {
			c.ctr.Conns.Store(0)
		}
		_ = Below(c.conn).Close() // the first error is the one that counts
		if c.back != nil {
			c.stop() // after that, so that no handler answers because it was told to stop
		}
	}
}

// Abort ends the connection; calls in flight fail with err.
func (c *Client) Abort(err error) { c.fail(err) }

// Received returns a number that grows when something arrives.
func (c *Client) Received() uint64 { return c.ctr.Replies.Load() + c.ctr.Dropped.Load() }

// Err returns why the connection has ended, nil if it has not.
func (c *Client) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// Stats implements [rpc.Caller].
func (c *Client) Stats() rpc.Stats {
	s := rpc.StatsOf(c.ctr)
	c.back.addStats(&s)
	return s
}

// Close implements [rpc.Caller]. It returns when the reading goroutine has ended.
func (c *Client) Close() error {
	if t, ok := c.conn.(*tls.Conn); ok {
		_ = t.Close() // tells the peer; fail does not wait for that
	}
	c.fail(net.ErrClosed)
	<-c.done
	return nil
}
