package transport

import (
	"context"
	"errors"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stag-rdma/stag/chunks"
	"github.com/stag-rdma/stag/transport/internal/memory"
	"github.com/stag-rdma/stag/transport/internal/requester"
	"github.com/stag-rdma/stag/transport/internal/stream"
	"github.com/stag-rdma/stag/transport/rpc"
	"github.com/stag-rdma/stag/xdr"
)

// CallConn is the client's end of an RPC-over-RDMA connection, as a net.Conn that carries
// record-marked ONC RPC (RFC 5531 Section 11), for clients that were written for TCP. Write takes
// records of whole calls, and Read returns records of whole replies. DDP-eligible items travel in
// chunks (Config.Binding finds them, RFC 8267 Section 4); XIDs, credentials and verifiers pass
// unchanged.
//
// Write returns when its calls are on their way. It waits while the replies to Config.Credits
// calls have not been read. A call whose XID is in use is a retransmission, and is dropped: the
// first one will be answered. A call that RPC-over-RDMA cannot carry is answered with SYSTEM_ERR,
// the only way to tell a record-marked client. It is safe for concurrent use.
type CallConn struct {
	c     *Client
	slots chan struct{} // one per call whose reply was not read

	wmu   sync.Mutex
	w     stream.Assembler
	write stream.Deadline

	mu      sync.Mutex
	pending map[uint32]struct{} // XIDs in flight
	wg      sync.WaitGroup      // its goroutines

	in stream.Queue
}

var _ net.Conn = (*CallConn)(nil)

// DialConn connects to an RPC-over-RDMA server and returns the connection as a record-marked one.
// network is "tcp", "tcp4" or "tcp6". ctx limits only the set-up. Errors are those of Dial.
func DialConn(ctx context.Context, network, addr string, cfg *Config) (*CallConn, error) {
	c, err := Dial(ctx, network, addr, cfg)
	if err != nil {
		return nil, err
	}
	return NewCallConn(c), nil
}

// NewCallConn takes c and returns it as a record-marked connection.
func NewCallConn(c *Client) *CallConn {
	cc := &CallConn{c: c, slots: make(chan struct{}, c.cfg.Credits), pending: make(map[uint32]struct{})}
	cc.w.Max = c.cfg.MaxPayload
	cc.in.Init(func() { <-cc.slots })
	cc.wg.Go(func() {
		<-c.req.Over()
		cc.in.Fail(c.req.Err())
	})
	return cc
}

// Read returns octets of the records of replies. io.EOF means that the server has closed the
// connection in an orderly way.
func (cc *CallConn) Read(p []byte) (int, error) {
	n, err := cc.in.Read(p)
	if err != nil && !requester.Ended(err) {
		err = cc.opErr("read", err)
	}
	return n, err
}

// Write takes octets of the records of calls, and sends each call that is complete. It copies the
// octets. If a record is not an RPC call, Write returns an error and the connection is closed.
func (cc *CallConn) Write(p []byte) (int, error) {
	cc.wmu.Lock()
	defer cc.wmu.Unlock()
	done := 0
	for done < len(p) {
		n, rec, err := cc.w.Add(p[done:])
		done += n
		if rec != nil {
			err = cc.call(rec)
		}
		if err != nil {
			return done, cc.opErr("write", err)
		}
	}
	return done, nil
}

// call starts the call in rec, which it takes.
func (cc *CallConn) call(rec *stream.Record) error {
	o := &forwardedCall{cc: cc, rec: rec}
	if err := o.parse(cc.c.cfg.Binding); err != nil {
		o.rec.Buf.Release()
		cc.c.conn.Abort(err) // the records after it mean nothing either
		return err
	}
	if err := cc.slot(); err != nil {
		o.rec.Buf.Release()
		return err
	}
	cc.mu.Lock()
	_, twice := cc.pending[o.call.Resend.XID]
	cc.pending[o.call.Resend.XID] = struct{}{}
	cc.mu.Unlock()
	if twice { // the client has sent it again, and the answer to the first one is for both
		<-cc.slots
		o.rec.Buf.Release()
		cc.c.ctr.Dropped.Add(1)
		return nil
	}
	cc.wg.Go(o.do)
	return nil
}

// slot waits until one more call may be made.
func (cc *CallConn) slot() error {
	// These first: of several that are ready, select takes any.
	select {
	case <-cc.c.req.Over():
		return cc.c.req.Err()
	case <-cc.write.Passed():
		return os.ErrDeadlineExceeded
	default:
	}
	select {
	case cc.slots <- struct{}{}:
		return nil
	case <-cc.c.req.Over():
		return cc.c.req.Err()
	case <-cc.write.Passed():
		return os.ErrDeadlineExceeded
	}
}

// answer queues a reply for Read and ends its call.
func (cc *CallConn) answer(xid uint32, rec stream.Record) {
	cc.mu.Lock()
	delete(cc.pending, xid) // before it can be read: the client may use the XID again then
	cc.mu.Unlock()
	cc.in.Push(rec)
}

// Close closes the connection. Calls in flight get no reply.
func (cc *CallConn) Close() error {
	err := cc.c.Close()
	cc.in.Fail(net.ErrClosed)
	cc.wg.Wait() // nothing is pushed any more
	cc.in.Drop()
	cc.wmu.Lock()
	defer cc.wmu.Unlock()
	cc.w.Drop()
	return err
}

// Stats returns the counters of the connection.
func (cc *CallConn) Stats() rpc.Stats { return cc.c.Stats() }

// opErr converts err to the form that net.Conn's methods return.
func (cc *CallConn) opErr(op string, err error) error {
	if _, ok := errors.AsType[*rpc.OpError](err); ok {
		return err
	}
	return &net.OpError{Op: op, Net: "rdma", Source: cc.LocalAddr(), Addr: cc.RemoteAddr(), Err: err}
}

// LocalAddr returns the local address of the underlying connection.
func (cc *CallConn) LocalAddr() net.Addr { return cc.c.conn.LocalAddr() }

// RemoteAddr returns the server's address.
func (cc *CallConn) RemoteAddr() net.Addr { return cc.c.conn.RemoteAddr() }

// SetDeadline sets both deadlines.
func (cc *CallConn) SetDeadline(t time.Time) error {
	cc.in.Deadline.Set(t)
	cc.write.Set(t)
	return nil
}

// SetReadDeadline sets the deadline of Read.
func (cc *CallConn) SetReadDeadline(t time.Time) error {
	cc.in.Deadline.Set(t)
	return nil
}

// SetWriteDeadline sets the deadline of Write.
func (cc *CallConn) SetWriteDeadline(t time.Time) error {
	cc.write.Set(t)
	return nil
}

// forwardedCall is a whole call from a record that is passed on. Its eligible argument may be reduced;
// its XID, credential and verifier stay the same.
type forwardedCall struct {
	cc   *CallConn
	rec  *stream.Record // the call
	call rpc.Call
	item int            // octets of the largest eligible result, 0 for none
	sink *memory.Buffer // where that is placed
	// refs counts who uses rec and sink: do, and the peer until Call.Free.
	refs atomic.Int32
}

// parse describes the call in o.rec by b.
func (o *forwardedCall) parse(b chunks.Binding) error {
	msg := o.rec.Bytes()
	if _, typ, ok := xdr.PeekXID(msg); !ok || typ != xdr.MsgCall {
		return rpc.ErrNotACall
	}
	d := xdr.NewDecoder(msg)
	var h xdr.CallHeader
	if err := h.Parse(&d); err != nil {
		return err
	}
	args := d.Rest()
	o.call = rpc.Call{
		Prog: h.Prog, Vers: h.Vers, Proc: h.Proc, Cred: h.Cred, Verf: h.Verf, Args: args,
		Free: o.free, Resend: &rpc.Transmission{XID: h.XID},
	}
	if h.Cred.Protected() { // RFC 8166 Section 8.2.2.3: nothing is reduced
		o.call.MaxResults = -1
		return nil
	}
	o.call.Reduce(b)
	o.expect(b, args)
	return nil
}

// expect makes room for the largest reply. A program without a binding may answer with as much as
// the connection can carry.
func (o *forwardedCall) expect(b chunks.Binding, args []byte) {
	rest, item, ok := b.MaxResults(o.call.Prog, o.call.Vers, o.call.Proc, args)
	limit := o.cc.c.cfg.MaxPayload - requester.HeadRoom
	if !ok || rest > limit || item > limit-rest {
		o.call.MaxResults = -1
		return
	}
	o.call.MaxResults, o.item = rest, item
}

// do makes the call and queues the reply.
func (o *forwardedCall) do() {
	o.refs.Store(2) // if its caller leaves, the peer may still read rec and write sink
	defer o.release()
	if o.item > 0 {
		o.sink = memory.Shared.Get(o.item)
		clear(o.sink.Data[:o.item]) // the server may write less than it claims: see outcall.register
		o.call.Sink = o.sink.Data[:o.item]
	}
	var reply rpc.Reply
	defer reply.Release()
	err := o.cc.c.Do(context.Background(), &o.call, &reply)
	xid := o.call.Resend.XID
	if _, refused := errors.AsType[*rpc.RPCError](err); refused {
		o.cc.answer(xid, systemErr(xid))
		return
	}
	if err != nil {
		o.cc.in.Fail(err)
		return
	}
	o.cc.answer(xid, o.record(&reply))
}

// free is Call.Free.
func (o *forwardedCall) free() { o.release() }

// release releases the memory when nobody uses it anymore.
func (o *forwardedCall) release() {
	if o.refs.Add(-1) > 0 {
		return
	}
	o.rec.Buf.Release()
	if o.sink != nil {
		o.sink.Release()
	}
}

// record assembles a reply, with the item in its place.
func (o *forwardedCall) record(r *rpc.Reply) stream.Record {
	res, tail := r.Results, []byte(nil)
	var item []byte
	if r.Item != nil {
		// A count that the binding does not find again leaves the results as they came.
		if pos, _, ok := o.cc.c.cfg.Binding.FindResult(o.call.Prog, o.call.Vers, o.call.Proc, res); ok {
			res, tail, item = res[:pos], res[pos:], r.Item
		}
	}
	n := r.Header.Size() + len(res) + len(item) + xdr.Pad(len(item)) + len(tail)
	rec := stream.Record{Buf: memory.Shared.Get(stream.MarkSize + n), Len: stream.MarkSize + n}
	b := xdr.AppendRecordMark(rec.Buf.Data[:0], n, true)
	b = xdr.AppendReply(b, &r.Header)
	b = append(b, res...)
	b = append(b, item...)
	b = xdr.AppendPad(b, len(item))
	_ = append(b, tail...) // within the buffer
	return rec
}

// systemErr is the record of a reply that only says SYSTEM_ERR.
func systemErr(xid uint32) stream.Record {
	h := xdr.ReplyHeader{XID: xid, Accept: xdr.SystemErr}
	rec := stream.Record{Buf: memory.Shared.Get(minInline), Len: stream.MarkSize + h.Size()}
	xdr.AppendReply(xdr.AppendRecordMark(rec.Buf.Data[:0], h.Size(), true), &h)
	return rec
}
