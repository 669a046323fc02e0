package requester

import (
	"context"
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
	lends  bool           // some memory of regs must be revoked

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
	regs   []memory.Registration // of all that it lends
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
	p.items, p.head, p.body = p.items[:0], p.head[:0], nil // Post has copied head
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
	p.w.Reset() // not in recycle: until here its last owner may have looked at it
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
	case arg: // the machine wants positions in the unreduced call
		before := len(p.rpc)
		p.items = append(p.items[:0], chunks.Item{Pos: before + call.ItemPos, Data: call.Item})
		for i := range call.MoreItems {
			last := len(p.items[i].Data)
			before += last + xdr.Pad(last)
			it := &call.MoreItems[i]
			p.items = append(p.items, chunks.Item{Pos: before + it.Pos, Data: it.Data})
		}
		p.rc.Message.Items = p.items
	default: // all of it becomes one buffer
		p.flat = memory.Shared.Get(Size(call))
		p.rc.Message.Body = AppendArgs(call, p.flat.Data[:0])
	}
	data = len(call.Sink) + xdr.Pad(len(call.Sink))
	p.rc.Sink, p.rc.MoreSinks = len(call.Sink), p.rc.MoreSinks[:0]
	for i := range call.MoreSinks {
		n := len(call.MoreSinks[i].Data)
		data += n + xdr.Pad(n)
		p.rc.MoreSinks = append(p.rc.MoreSinks, n)
	}
	if result {
		return 0
	}
	p.rc.Sink, p.rc.MoreSinks = 0, p.rc.MoreSinks[:0] // they come in the reply, which needs that room
	return data
}

// register registers the memory that the plan needs.
func (p *outstanding) register(c *Requester, call *rpc.Call) error {
	rc, m := &p.rc, &p.rc.Memory
	if rc.Plan == (rpcrdma.Plan{}) {
		return nil
	}
	p.lends = true
	// The least that serves the purpose, each with a registration of its own (RFC 8166 Section 8.1). What is written
	// counts when the reply has come.
	read, write := region.RemoteRead, region.RemoteWrite|region.Scratch
	if !c.cfg.NoRemoteInvalidate {
		read |= region.RemoteInvalidate
		write |= region.RemoteInvalidate
	}
	var err error
	if rc.Plan.Arg {
		m.Arg, err = p.lend(c, m.Arg, call.Item, call.ItemMemory, read)
	}
	if n := rc.Plan.Stream; n > 0 && err == nil {
		p.stream = memory.Shared.Get(n)
		m.Stream, err = p.lend(c, m.Stream, rc.AppendStream(p.stream.Data[:0]), nil, read)
	}
	if rc.Plan.Sink && err == nil {
		m.Sink, err = p.lend(c, m.Sink, call.Sink, call.SinkMemory, write)
	}
	if err == nil && len(call.MoreItems)+len(call.MoreSinks) > 0 {
		err = p.registerMore(c, call, read, write)
	}
	if n := rc.Plan.Reply; n > 0 && err == nil {
		p.reply = memory.Shared.Get(n)
		// The server may claim to have written octets that it has not. These must not show
		// data of other calls (RFC 5042 Section 6.3.2), least of all to a client of a relay.
		clear(p.reply.Data[:n])
		m.Reply, err = p.lend(c, m.Reply, p.reply.Data[:n], nil, write)
	}
	return err
}

// registerMore registers the memory of further items and sinks that the plan needs.
func (p *outstanding) registerMore(c *Requester, call *rpc.Call, read, write region.Access) (err error) {
	rc, m := &p.rc, &p.rc.Memory
	for i := range call.MoreItems {
		var seg *chunks.WriteChunk
		if seg, m.More = oneMore(m.More); rc.Plan.More.Has(i + 1) {
			it := &call.MoreItems[i]
			if *seg, err = p.lend(c, *seg, it.Data, it.Memory, read); err != nil {
				return err
			}
		}
	}
	if !rc.Plan.Sink {
		return nil
	}
	for i := range call.MoreSinks {
		var seg *chunks.WriteChunk
		seg, m.MoreSinks = oneMore(m.MoreSinks)
		s := &call.MoreSinks[i]
		if *seg, err = p.lend(c, *seg, s.Data, s.Memory, write); err != nil {
			return err
		}
	}
	return nil
}

// oneMore appends an empty chunk to list, in the memory of an earlier one if there is any.
func oneMore(list []chunks.WriteChunk) (*chunks.WriteChunk, []chunks.WriteChunk) {
	n := len(list)
	if n < cap(list) {
		list = list[:n+1]
		list[n] = list[n][:0]
	} else {
		list = append(list, nil)
	}
	return &list[n], list
}

// lend lends mem and appends the segment that offers it. An empty part needs no registration.
func (p *outstanding) lend(c *Requester, seg chunks.WriteChunk, mem []byte, in *rpc.Memory, access region.Access) (chunks.WriteChunk, error) {
	seg = seg[:0]
	if len(mem) == 0 {
		return seg, nil
	}
	l, err := memory.Register(c.conn, c.ctr, mem, (*memory.Memory)(in), access)
	if err != nil {
		return seg, err
	}
	p.regs = append(p.regs, l)
	return append(seg, chunks.Segment{Handle: memory.Handle(l.STag()), Offset: l.Base(), Length: uint32(len(mem))}), nil
}

// takeBack revokes all memory of the call; see Registration.Revoke.
func (p *outstanding) takeBack(ctx context.Context, ctr *memory.Counters) error {
	if !p.lends {
		return nil
	}
	for i := range p.regs { // those that are done are empty: if it fails halfway, they are passed over the next time
		if err := p.regs[i].Revoke(ctx, ctr); err != nil {
			return err
		}
	}
	p.regs, p.lends = p.regs[:0], false
	return nil
}

// lendBody notes that the engine is about to read p.body.
func (c *Requester) lendBody(p *outstanding, call *rpc.Call) error {
	in := (*memory.Memory)(call.ItemMemory)
	if n := len(call.MoreItems); n > 0 {
		in = (*memory.Memory)(call.MoreItems[n-1].Memory)
	}
	if in == nil {
		return nil
	}
	if err := in.Take(p.body); err != nil {
		c.bodyBack(p)
		return err
	}
	p.bodyIn = in
	return nil
}

// bodyBack notes that the engine no longer reads p.body, and reports whether p must be reaped: its caller
// has left, and its reply or the end of the connection came first.
func (c *Requester) bodyBack(p *outstanding) (left bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if p.writing == nil {
		return false
	}
	if p.writing = nil; p.bodyIn != nil {
		p.bodyIn.Give()
		p.bodyIn = nil
	}
	if p.back != nil {
		close(p.back)
		p.back = nil
	}
	if p.early { // the reply has waited for this
		return p.answered()
	}
	return p.left && !p.active
}

// awaitBody waits until the engine no longer reads the body of a call that the end of the connection has failed: until
// then its caller must neither change that memory nor send it on another connection. The engine lets go of it when it
// has closed the connection.
func (c *Requester) awaitBody(ctx context.Context, p *outstanding) {
	c.mu.Lock()
	if p.writing == nil {
		c.mu.Unlock()
		return
	}
	back := make(chan struct{})
	p.back = back
	c.mu.Unlock()
	select {
	case <-back:
	case <-ctx.Done(): // the caller learns from Call.Free when the memory is its own again
	}
}

// bodyWritten completes the Send of a call that ends with the caller's memory.
type bodyWritten outstanding

// Complete returns that memory, whether it was written or the connection has ended. p may be reused
// as soon as bodyBack has returned: then its caller has gone on.
func (d *bodyWritten) Complete(error) {
	p := (*outstanding)(d)
	if c := p.writing; c.bodyBack(p) {
		c.reap(p)
	}
}
