package requester

import (
	"encoding/binary"
	"time"

	"github.com/stag-rdma/stag/chunks"
	"github.com/stag-rdma/stag/internal/list"
	"github.com/stag-rdma/stag/rdmap"
	"github.com/stag-rdma/stag/rdmap/region"
	"github.com/stag-rdma/stag/rpcrdma"
	"github.com/stag-rdma/stag/transport/internal/memory"
	"github.com/stag-rdma/stag/transport/rpc"
	"github.com/stag-rdma/stag/xdr"
)

// outstanding is one call of a client from Do to its reply. It is reused. Requester.mu guards the second
// group of fields.
type outstanding struct {
	// The fields for calls with chunks come last, so that other calls touch fewer cache lines.
	w      rdmap.Waiter
	head   []byte         // the Send, or its beginning
	body   []byte         // its end, an item of the caller's
	rpc    []byte         // the RPC call header
	flat   *memory.Buffer // arguments that include an item that must not be reduced
	stream *memory.Buffer // payload stream of a long call
	reply  *memory.Buffer // memory for a long reply
	pulled *memory.Buffer // a reply that was read by RDMA Read
	free   func()         // of the Call
	lends  bool           // some memory of regs or more must be revoked

	active   bool           // in the requester's table: has a credit
	writing  *Requester     // not nil: the engine still reads body
	back     chan struct{}  // not nil: closed when it no longer does
	early    bool           // the reply came meanwhile
	left     bool           // its caller has gone
	late     bool           // the tick has completed w
	in       *memory.Buffer // the inline reply
	pull     *replyPull     // reads the reply by RDMA Read
	deadline time.Time
	place    list.Node[outstanding] // in Requester.queue

	rc     rpcrdma.Call
	items  []chunks.Item
	regs   registrations
	more   []memory.Registration // of further items and sinks
	bodyIn *memory.Memory        // of which body is a part, or nil
}

// newCall returns an empty call.
func (c *Requester) newCall() *outstanding {
	p, _ := c.idle.Get().(*outstanding)
	if p == nil {
		p = new(outstanding)
	}
	return p
}

// maxKept is the memory for the Send that a call leaves to the next one.
const maxKept = 8 << 10

// recycle takes back a call that nobody uses anymore.
func (c *Requester) recycle(p *outstanding) {
	p.rc.Reset()
	clear(p.items)
	p.items, p.head, p.body = p.items[:0], p.head[:0], nil
	if cap(p.head) > maxKept {
		p.head = nil
	}
	p.deadline = time.Time{}
	p.active, p.left, p.late, p.early, p.back, p.pull = false, false, false, false, nil, nil
	c.idle.Put(p)
}

// number gives p a new XID, or that of an earlier transmission. The caller holds c.mu.
func (c *Requester) number(p *outstanding, call *rpc.Call) {
	if tx := call.Resend; tx != nil {
		p.rc.XID = tx.XID
	} else {
		c.xid++
		for c.req.Lookup(c.xid) != nil { // cancelled calls keep their XIDs
			c.xid++
		}
		p.rc.XID = c.xid
	}
	binary.BigEndian.PutUint32(p.rpc, p.rc.XID)
	Sign(call, p.rpc)
}

// keeps reports whether p has something that drop releases.
func (p *outstanding) keeps() bool {
	return p.in != nil || p.flat != nil || p.stream != nil || p.reply != nil || p.pulled != nil || p.free != nil
}

// drop releases the buffers of a call whose regions are invalid, and tells the caller that its memory is
// free.
func (p *outstanding) drop() {
	p.eachBuffer((*memory.Buffer).Release)
	if f := p.free; f != nil {
		p.free = nil
		f()
	}
}

// abandon leaves the buffers of a call to the garbage collector, because the engine may still use them.
func (p *outstanding) abandon() { p.eachBuffer((*memory.Buffer).Abandon) }

// eachBuffer calls f with each buffer of p, and forgets the buffer.
func (p *outstanding) eachBuffer(f func(*memory.Buffer)) {
	for _, b := range [...]**memory.Buffer{&p.in, &p.flat, &p.stream, &p.reply, &p.pulled} {
		if *b != nil {
			f(*b)
			*b = nil
		}
	}
}

// prepare fills p.rc, with which the requester plans, from call.
func (p *outstanding) prepare(c *Requester, call *rpc.Call) {
	p.w.Reset()
	rc := &p.rc
	var h xdr.CallHeader
	h.RPCVers, h.Prog, h.Vers, h.Proc = xdr.RPCVersion, call.Prog, call.Vers, call.Proc // the XID is set with the credit
	h.Cred, h.Verf = call.Cred, call.Verf
	p.rpc = xdr.AppendCall(p.rpc[:0], &h)
	p.free = call.Free
	rc.Protected = call.Cred.Protected()
	rc.Owner, rc.Prog, rc.Vers, rc.Proc = p, call.Prog, call.Vers, call.Proc
	rc.Message.Head, rc.Message.Body = p.rpc, call.Args // the other fields are as Reset left them
	data := 0
	if !Plain(call) {
		data = p.prepareItems(c, call)
	}
	if n := call.MaxResults; n != 0 {
		if n < 0 {
			n = c.cfg.MaxPayload - HeadRoom
		}
		rc.MaxReply = ReplyHeaderSize + n
		if call.Cred.Flavor == xdr.RPCSECGSS {
			rc.MaxReply += xdr.MaxAuthBody // the verifier is a checksum (RFC 2203 Section 5.3.3.2)
		}
	}
	if data > 0 {
		if rc.MaxReply == 0 {
			rc.MaxReply = c.recvSize - rpcrdma.MinHeaderSize
		}
		rc.MaxReply += data
	}
}

// prepareItems is prepare for items and sinks. It returns the octets of results that may not be placed.
func (p *outstanding) prepareItems(c *Requester, call *rpc.Call) (data int) {
	arg, result := c.mayReduce(call)
	switch {
	case call.Item == nil:
	case arg:
		p.setItems(call)
	default:
		p.rc.Message.Body = p.flatten(call)
	}
	return p.setSinks(call, !result)
}

// flatten copies arguments whose item must not be reduced into one buffer.
func (p *outstanding) flatten(call *rpc.Call) []byte {
	p.flat = memory.Shared.Get(Size(call))
	return AppendArgs(call, p.flat.Data[:0])
}

// register registers the memory that the plan needs.
func (p *outstanding) register(c *Requester, call *rpc.Call) error {
	rc, m := &p.rc, &p.rc.Memory
	if rc.Plan == (rpcrdma.Plan{}) {
		return nil
	}
	p.lends = true
	read, write := region.RemoteRead, region.RemoteWrite
	if !c.cfg.NoRemoteInvalidate {
		read |= region.RemoteInvalidate
		write |= region.RemoteInvalidate
	}
	var err error
	if rc.Plan.Arg {
		m.Arg, err = p.regs.add(c.conn, c.ctr, partArg, m.Arg, call.Item, call.ItemMemory, read)
	}
	if n := rc.Plan.Stream; n > 0 && err == nil {
		p.stream = memory.Shared.Get(n)
		m.Stream, err = p.regs.add(c.conn, c.ctr, partStream, m.Stream, rc.AppendStream(p.stream.Data[:0]), nil, read)
	}
	if rc.Plan.Sink && err == nil {
		m.Sink, err = p.regs.add(c.conn, c.ctr, partSink, m.Sink, call.Sink, call.SinkMemory, write)
	}
	if err == nil && len(call.MoreItems)+len(call.MoreSinks) > 0 {
		err = p.registerMore(c, call, read, write)
	}
	if n := rc.Plan.Reply; n > 0 && err == nil {
		p.reply = memory.Shared.Get(n)
		// The server may claim to have written octets that it has not. These must not show
		// data of other calls (RFC 5042 Section 6.3.2), least of all to a client of a relay.
		clear(p.reply.Data[:n])
		m.Reply, err = p.regs.add(c.conn, c.ctr, partReply, m.Reply, p.reply.Data[:n], nil, write)
	}
	return err
}
