package transport

import (
	"context"
	"io"
	"net"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stag-rdma/stag/transport/internal/execute"
	"github.com/stag-rdma/stag/transport/internal/memory"
	"github.com/stag-rdma/stag/transport/internal/requester"
	"github.com/stag-rdma/stag/transport/internal/responder"
	"github.com/stag-rdma/stag/transport/internal/stream"
	"github.com/stag-rdma/stag/transport/rpc"
	"github.com/stag-rdma/stag/xdr"
)

// recordConn is a net.Conn with record-marked ONC RPC above and RPC-over-RDMA below. Calls wait
// here until they are read, and then for the reply with their XID.
type recordConn struct {
	rc     *responder.Responder
	fanout *fanout  // it and its siblings
	conn   net.Conn // for the addresses

	mu       sync.Mutex
	unread   []unread                  // complete messages that were not completely read
	off      int                       // octets of the first one's record that were read
	pending  map[uint32]owed           // complete calls by XID, until answered
	orphans  map[uint32]*execute.Entry // by XID, calls that the server still works on after the end
	patience *time.Timer               // limits the wait for the orphans
	closed   bool                      // by the server
	err      error                     // the connection is over
	some     chan struct{}             // a hint that there is something to read
	read     stream.Deadline
	calls    atomic.Int32 // backward calls that were written and not answered

	wmu   sync.Mutex
	w     stream.Assembler
	write stream.Deadline
}

var _ net.Conn = (*recordConn)(nil)

// owed is a call that has no reply yet.
type owed struct {
	call  *responder.Call
	entry *execute.Entry // of one that must not run twice; nil of others
}

// unread is a message that waits to be read: a call, or the n octets in buf, the reply to a backward call.
type unread struct {
	call *responder.Call
	buf  *memory.Buffer
	n    int
}

// message returns the octets.
func (u *unread) message() []byte {
	if u.call != nil {
		return u.call.Message()
	}
	return u.buf.Data[:u.n]
}

// newRecordConn makes one of the connections as which conn appears.
func newRecordConn(ls *fanout, conn net.Conn, maxPayload int) *recordConn {
	c := &recordConn{rc: ls.rc, fanout: ls, conn: conn, pending: make(map[uint32]owed), some: make(chan struct{}, 1)}
	c.w.Max, c.w.Check = maxPayload, c.checkRecord
	return c
}

// load returns the calls without an answer, and whether xid is one of them.
func (c *recordConn) load(xid uint32) (n int, has bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, has = c.pending[xid]
	return len(c.pending), has
}

// queue queues a call for Read. It returns false if no more calls are accepted.
func (c *recordConn) queue(o owed) bool {
	c.mu.Lock()
	if c.err != nil {
		c.mu.Unlock()
		return false
	}
	c.pending[o.call.Req.XID] = o
	c.unread = append(c.unread, unread{call: o.call})
	c.mu.Unlock()
	c.hint()
	return true
}

// hint wakes one reader.
func (c *recordConn) hint() {
	select {
	case c.some <- struct{}{}:
	default:
	}
}

// ended makes Read and Write fail, and forgets the calls that were not answered. While the server
// works on one that must not run twice, Read waits and Write takes the reply: a server that saw the
// end might stop halfway.
func (c *recordConn) ended(err error) {
	if err == nil {
		err = io.EOF
	}
	c.mu.Lock()
	c.err = err // from here on queue takes no call
	left := c.pending
	for _, u := range c.unread {
		if u.buf != nil {
			u.buf.Release()
		}
	}
	c.unread, c.pending = nil, nil
	forgotten := c.orphan(left)
	over := len(c.orphans) == 0
	c.mu.Unlock()
	c.hint()
	if over { // else Write still takes replies
		c.dropRecord()
	}
	for _, e := range forgotten {
		c.fanout.dups.End(e, nil)
	}
	for _, o := range left { // without c.mu: what they held goes to calls that wait
		c.rc.Finish(o.call)
	}
}

// Read returns octets of the records of calls. It implements net.Conn; io.EOF means that the peer
// has closed the connection in an orderly way.
func (c *recordConn) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	for {
		if n, err := c.take(p); n > 0 || err != nil {
			return n, err
		}
		select {
		case <-c.some:
		case <-c.read.Passed():
			return 0, c.opErr("read", os.ErrDeadlineExceeded)
		}
	}
}

// take copies the octets that are available.
func (c *recordConn) take(p []byte) (n int, err error) {
	select {
	case <-c.read.Passed():
		return 0, c.opErr("read", os.ErrDeadlineExceeded)
	default:
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for n < len(p) && len(c.unread) > 0 {
		n += c.takeRecord(p[n:])
	}
	switch {
	case n == 0 && c.err != nil && len(c.orphans) == 0:
		c.hint() // for the next reader
		if requester.Ended(c.err) {
			return 0, io.EOF
		}
		return 0, c.opErr("read", c.err)
	case len(c.unread) > 0:
		c.hint()
	}
	return n, nil
}

// takeRecord copies octets of the first record, and releases its memory when all are read. The
// caller holds c.mu.
func (c *recordConn) takeRecord(p []byte) (n int) {
	u := &c.unread[0]
	msg := u.message()
	if c.off < stream.MarkSize {
		var mark [stream.MarkSize]byte
		n = copy(p, xdr.AppendRecordMark(mark[:0], len(msg), true)[c.off:])
		c.off += n
	}
	if c.off >= stream.MarkSize {
		k := copy(p[n:], msg[c.off-stream.MarkSize:])
		c.off += k
		n += k
	}
	if c.off == stream.MarkSize+len(msg) {
		c.off = 0
		if u.call != nil {
			u.call.ReleaseArgs()
		} else {
			u.buf.Release()
		}
		c.unread = slices.Delete(c.unread, 0, 1)
	}
	return n
}

// Write takes octets of the records of replies, which it copies. It sends a reply when its record
// is complete, and does not wait for the peer.
func (c *recordConn) Write(p []byte) (int, error) {
	select {
	case <-c.write.Passed():
		return 0, c.opErr("write", os.ErrDeadlineExceeded)
	default:
	}
	c.wmu.Lock()
	defer c.wmu.Unlock()
	if err := c.failure(); err != nil {
		return 0, c.opErr("write", err)
	}
	done := 0
	for done < len(p) {
		n, rec, err := c.w.Add(p[done:])
		done += n
		if err != nil {
			return done, c.opErr("write", err)
		}
		if rec != nil {
			c.reply(rec)
		}
	}
	return done, nil
}

// failure returns why nothing can be written anymore.
func (c *recordConn) failure() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.orphans) > 0 {
		return nil
	}
	return c.err
}

// checkRecord returns how many octets the record with this head may have; of a larger one no more is kept than the head. The
// caller holds c.wmu.
func (c *recordConn) checkRecord(head []byte, _ int) (int, error) {
	xid, typ, ok := xdr.PeekXID(head)
	if ok && typ == xdr.MsgCall && c.rc.Backward != nil {
		return c.rc.MostBackward(), nil
	}
	c.mu.Lock()
	x := c.pending[xid].call
	if !ok || x != nil && x.Unread() {
		x = nil // a reply before the call was read
	}
	_, orphan := c.orphans[xid]
	most := 0
	if x != nil {
		most = c.rc.MostReply(x) // under the lock: x is used again when the connection has ended
	}
	c.mu.Unlock()
	switch {
	case x != nil:
		return most, nil
	case ok && orphan:
		return c.w.Max, nil
	}
	return 0, nil
}

// reply sends the record in rec, which it takes, as the reply to the call with its XID. It drops a
// reply without a call. If rec is a call, it is a backward call.
func (c *recordConn) reply(rec *stream.Record) {
	msg := rec.Bytes()
	xid, typ, _ := xdr.PeekXID(msg)
	if typ == xdr.MsgCall {
		c.callBackward(rec)
		return
	}
	c.mu.Lock()
	o := c.pending[xid]
	if o.call == nil || o.call.Unread() {
		c.mu.Unlock() // unknown, or answered before it was read
		if !c.adopt(xid, rec) {
			c.fanout.ctr.Dropped.Add(1)
		}
		rec.Buf.Release()
		return
	}
	delete(c.pending, xid)
	c.mu.Unlock()
	if rec.Cut { // the reply is larger than what the client has room for
		rec.Buf.Release()
		if o.entry != nil {
			c.fanout.dups.End(o.entry, nil)
		}
		c.rc.TooLarge(o.call)
		return
	}
	if o.entry != nil {
		c.fanout.keep(o.entry, msg)
	}
	o.call.Resp.Lent.Add(rec.Buf)
	c.rc.Answer(o.call, msg)
}

// Close sends what was written, closes the connection, and makes Read return io.EOF. If the
// connection owes no reply and has siblings, these stay open.
func (c *recordConn) Close() error {
	c.mu.Lock()
	c.closed = true // the server has given up what it was working on: see orphan
	c.mu.Unlock()
	defer c.dropRecord()
	c.disown()
	if c.fanout.leave(c) {
		c.ended(nil)
		return nil
	}
	return c.rc.Close()
}

// orphan keeps the calls that the server above is working on when the connection ends: their
// replies are for the next connection, on which the client sends the calls again. Calls that the
// server has not read completely cannot have been executed: they are forgotten, and so are all
// calls if the server has closed the connection itself. The caller holds c.mu; c.pending was moved
// to left.
func (c *recordConn) orphan(left map[uint32]owed) (forgotten []*execute.Entry) {
	for xid, o := range left {
		switch {
		case o.entry == nil:
		case c.closed || o.call.Unread():
			forgotten = append(forgotten, o.entry)
		default:
			if c.orphans == nil {
				c.orphans = make(map[uint32]*execute.Entry)
			}
			c.orphans[xid] = o.entry
		}
	}
	if len(c.orphans) > 0 {
		c.patience = time.AfterFunc(c.fanout.keeps, c.disown)
	}
	return forgotten
}

// adopt takes the reply to an orphan, and reports whether it is one. Of a reply that the client had no room for there is
// only the head: then nobody has the reply, as in tooLarge.
func (c *recordConn) adopt(xid uint32, rec *stream.Record) bool {
	c.mu.Lock()
	e, ok := c.orphans[xid]
	delete(c.orphans, xid)
	last := ok && len(c.orphans) == 0
	if last {
		c.patience.Stop()
	}
	c.mu.Unlock()
	switch {
	case ok && rec.Cut:
		c.fanout.dups.End(e, nil)
	case ok:
		c.fanout.keep(e, rec.Bytes())
	}
	if last {
		c.hint() // Read may now report the end of the connection
	}
	return ok
}

// disown gives up the orphans, because nobody will answer them.
func (c *recordConn) disown() {
	c.mu.Lock()
	orphans := c.orphans
	c.orphans = nil
	if c.patience != nil {
		c.patience.Stop()
	}
	c.mu.Unlock()
	for _, e := range orphans {
		c.fanout.dups.End(e, nil)
	}
	c.hint()
}

// dropRecord releases the memory of a reply that was not written completely.
func (c *recordConn) dropRecord() {
	c.wmu.Lock()
	defer c.wmu.Unlock()
	c.w.Drop()
}

// opErr converts err to the form that net.Conn's methods return.
func (c *recordConn) opErr(op string, err error) error {
	return &net.OpError{Op: op, Net: "rdma", Source: c.LocalAddr(), Addr: c.RemoteAddr(), Err: err}
}

// LocalAddr returns the local address of the underlying connection.
func (c *recordConn) LocalAddr() net.Addr { return c.conn.LocalAddr() }

// RemoteAddr returns the peer's address.
func (c *recordConn) RemoteAddr() net.Addr { return c.conn.RemoteAddr() }

// SetDeadline sets both deadlines.
func (c *recordConn) SetDeadline(t time.Time) error {
	c.read.Set(t)
	c.write.Set(t)
	return nil
}

// SetReadDeadline sets the deadline of Read.
func (c *recordConn) SetReadDeadline(t time.Time) error {
	c.read.Set(t)
	return nil
}

// SetWriteDeadline sets the deadline of Write, which never waits: only a deadline that has passed
// has an effect.
func (c *recordConn) SetWriteDeadline(t time.Time) error {
	c.write.Set(t)
	return nil
}

// maxBackwardWritten limits the backward calls of one record-marked connection that were written and
// not answered.
const maxBackwardWritten = 1024

// callBackward makes the backward call in rec, which it takes. A server writes calls as well as replies:
// NFSv4.1 servers do so on the connection of a session's back channel. XID, credential and verifier stay
// the same; Read returns the reply as a record.
//
// Choice: if the server makes a call, we believe that the client accepts it (RFC 8167 Section 5.3),
// because the server is the upper layer that was told. A call that cannot be made is answered with
// SYSTEM_ERR, the only way to tell a record-marked server.
func (c *recordConn) callBackward(rec *stream.Record) {
	d := xdr.NewDecoder(rec.Bytes())
	var h xdr.CallHeader
	b := c.rc.Backward
	if rec.Cut {
		h.XID, _, _ = xdr.PeekXID(rec.Bytes())
	} else if b != nil && h.Parse(&d) != nil {
		b = nil
	}
	if b == nil {
		rec.Buf.Release()
		c.fanout.ctr.Dropped.Add(1)
		return
	}
	b.Enable()
	if c.calls.Add(1) > maxBackwardWritten || rec.Cut {
		c.answerBackward(rec, &xdr.ReplyHeader{XID: h.XID, Accept: xdr.SystemErr}, nil)
		return
	}
	call := &rpc.Call{
		Prog: h.Prog, Vers: h.Vers, Proc: h.Proc, Cred: h.Cred, Verf: h.Verf, Args: d.Rest(),
		Resend: &rpc.Transmission{XID: h.XID},
	}
	go func() {
		var reply rpc.Reply
		defer reply.Release()
		if b.Do(context.Background(), call, &reply) != nil { // ends with the connection
			reply.Header = xdr.ReplyHeader{XID: h.XID, Accept: xdr.SystemErr}
		}
		c.answerBackward(rec, &reply.Header, reply.Results)
	}()
}

// answerBackward queues the reply to a backward call for Read, and ends the call.
func (c *recordConn) answerBackward(rec *stream.Record, h *xdr.ReplyHeader, results []byte) {
	rec.Buf.Release()
	c.calls.Add(-1)
	n := h.Size() + len(results)
	buf := memory.Shared.Get(n)
	_ = append(xdr.AppendReply(buf.Data[:0], h), results...) // within the buffer
	c.mu.Lock()
	over := c.err != nil
	if !over {
		c.unread = append(c.unread, unread{buf: buf, n: n})
	}
	c.mu.Unlock()
	if over {
		buf.Release()
		return
	}
	c.hint()
}
