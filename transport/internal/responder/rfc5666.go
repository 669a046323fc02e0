package responder

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/stag-rdma/stag/chunks"
	"github.com/stag-rdma/stag/rdmap/region"
	"github.com/stag-rdma/stag/rdmap/verbs"
	"github.com/stag-rdma/stag/rpcrdma"
	"github.com/stag-rdma/stag/transport/internal/memory"
	"github.com/stag-rdma/stag/transport/rpc"
	"github.com/stag-rdma/stag/xdr"
	"go.uber.org/zap"
)

// rfc5666 is what a connection has besides that follows RFC 5666: replies that the client reads (Section 3.8). Responder.mu
// guards all but rc and cfg. Without it the machine refuses RDMA_DONE and RDMA_MSGP, and exposes nothing.
type rfc5666 struct {
	rc         *Responder
	cfg        *RFC5666
	dones      doneWatch
	withheld   []*Call // replies that may not be exposed yet, oldest first
	configured bool    // the client has called the Connection Configuration Protocol
}

// settled applies what the start-up, or the Connection Configuration Protocol, has settled. The caller holds Responder.mu.
//
// Choice: a client can read exposed replies if it has read depth, and has either called the Connection
// Configuration Protocol or not used RFC 8797, which belongs to RFC 8166. Other clients would drop the reply and
// never send RDMA_DONE.
func (p *rfc5666) settled(configured bool) {
	p.configured = p.configured || configured
	reads := (p.configured || !p.rc.told) && p.rc.Conn.ConnectionState().IRD > 0
	p.rc.resp.Configure(func(c *rpcrdma.ResponderConfig) { c.Reads = reads })
}

// landed returns a Send in the place where its data are aligned. Pooled buffers begin at a multiple of every alignment that
// Config permits, so the data have the same alignment in memory as in the Send. x holds the buffer; the message is not
// copied again.
func (rc *Responder) landed(x *Call, send []byte) []byte {
	if !rpcrdma.IsPadded(send) {
		return send
	}
	rc.Ctr.Padded.Add(1)
	x.held = memory.Shared.Get(len(send))
	return x.held.Data[:copy(x.held.Data, send)]
}

// exposure is the memory of a reply that the client reads (RFC 5666 Section 3.8). It has two
// owners: the sender of the reply, and the receiver of the RDMA_DONE or of the end of the
// connection. The last one to release it frees it.
type exposure struct {
	owners atomic.Int32
	since  time.Time
	octets int64
	regs   []region.Region
	mem    []chunks.Segment
	stream *memory.Buffer // of a long reply
}

// ErrNoDone ends a connection whose client does not say that it has read a reply. RFC
// 5666 Section 3.8: "the server MAY conclude that a protocol violation has occurred and
// close the RPC connection".
var ErrNoDone = &rpc.SlowPeerError{What: "sends no RDMA_DONE for a reply exposed to it"}

// expose sends the reply in x.out.Expose, now or when others have been read.
func (p *rfc5666) expose(x *Call) {
	x.exp.octets = 0
	for i := range x.out.Expose {
		x.exp.octets += int64(x.out.Expose[i].Octets)
	}
	over := p.countExposed(x.exp.octets) // before it waits: those that wait take the memory, too
	p.rc.mu.Lock()
	if p.rc.gone || over != nil {
		gone := p.rc.gone
		if !gone {
			p.rc.resp.Refuse(x.head[:0], &x.In, &x.out)
		}
		p.rc.mu.Unlock()
		_ = p.countExposed(-x.exp.octets) // less is no refusal
		if gone {
			p.rc.Finish(x)
			return
		}
		p.rc.Ctr.ExposedRefused.Add(1)
		x.out.Err = over
		p.rc.noFit(x)
		p.rc.send(x, nil)
		return
	}
	x.out.Owner = x
	mine := len(p.withheld) == 0 && p.admitExposure(x) // not past those that wait
	if !mine {
		p.withheld = append(p.withheld, x)
		p.rc.Ctr.Withheld.Add(1)
	}
	p.rc.mu.Unlock()
	if mine {
		p.sendExposed(x)
	}
}

// countExposed counts n more octets of replies that wait to be read. If they are too many, the error is a
// *LimitError.
func (p *rfc5666) countExposed(n int64) error {
	if all := p.rc.Ctr.ExposedOctets.Add(n); n > 0 && all > p.cfg.ExposedMemory {
		p.rc.Peer.Expose(n)
		return &rpc.LimitError{Limit: rpc.LimitExposed, Client: p.rc.Peer.Addr(), Max: p.cfg.ExposedMemory}
	}
	if !p.rc.Peer.Expose(n) {
		return &rpc.LimitError{Limit: rpc.LimitClientExposed, Client: p.rc.Peer.Addr(), Max: p.rc.Peer.Limits().Exposed}
	}
	return nil
}

// admitExposure exposes x if the limits permit. The caller holds p.rc.mu.
func (p *rfc5666) admitExposure(x *Call) bool {
	if !p.rc.resp.Expose(&x.out) {
		return false
	}
	x.exp.owners.Store(2) // the completion of the Send, and the RDMA_DONE or the end; either may be first
	x.exp.since = time.Now()
	p.rc.Ctr.Exposed.Add(1)
	p.dones.arm(p)
	p.rc.postReceives() // the RDMA_DONE needs one (RFC 5666 Section 3.8)
	return true
}

// exposeWithheld sends the replies that may be sent after an RDMA_DONE, oldest first.
func (p *rfc5666) exposeWithheld() {
	for {
		p.rc.mu.Lock()
		if p.rc.gone || len(p.withheld) == 0 || !p.admitExposure(p.withheld[0]) {
			p.rc.mu.Unlock()
			return
		}
		x := p.withheld[0]
		p.withheld[0] = nil
		p.withheld = p.withheld[1:]
		p.rc.mu.Unlock()
		p.sendExposed(x)
	}
}

// sendExposed registers the memory of an admitted reply and sends it.
func (p *rfc5666) sendExposed(x *Call) {
	if err := p.registerExposed(x); err != nil {
		p.rc.Conn.Abort(err) // RFC 8166 Section 4.5.4: no reply can be sent
		p.unexpose(x)
		return
	}
	p.rc.mu.Lock()
	x.head = p.rc.resp.AppendExposed(x.head[:0], &x.In, &x.out, x.exp.mem)
	p.rc.mu.Unlock()
	p.rc.send(x, (*exposedSent)(x))
}

// registerExposed makes exactly the octets of the reply readable, and no others.
func (p *rfc5666) registerExposed(x *Call) error {
	e := &x.exp
	for i := range x.out.Expose {
		part := &x.out.Expose[i]
		data := part.Data
		if data == nil { // the whole reply: it must be contiguous for the client
			e.stream = memory.Shared.Get(part.Octets)
			data = x.out.AppendStream(e.stream.Data[:0])
		}
		seg := chunks.Segment{Length: uint32(len(data))}
		if len(data) > 0 {
			reg, err := p.rc.Conn.Register(data, region.RemoteRead)
			if err != nil {
				return err
			}
			p.rc.Ctr.Registered.Add(1)
			e.regs = append(e.regs, reg)
			seg.Handle, seg.Offset = memory.Handle(reg.STag()), reg.Base()
		}
		e.mem = append(e.mem, seg)
	}
	return nil
}

// unexpose releases one ownership; the last one frees the memory.
func (p *rfc5666) unexpose(x *Call) {
	if x.exp.owners.Add(-1) > 0 {
		return
	}
	for i := range x.exp.regs { // before anything is reused: the client may read on after its RDMA_DONE
		if x.exp.regs[i].Invalidate(memory.NoWait) != nil {
			go p.settleExposed(x) // not here: this may be an upcall
			return
		}
	}
	p.freeExposed(x)
}

// settleExposed waits until no RDMA Read touches the memory anymore. If the engine does not release
// the memory, it is never reused.
func (p *rfc5666) settleExposed(x *Call) {
	ctx, cancel := context.WithTimeout(context.Background(), p.rc.cfg.CloseTimeout)
	defer cancel()
	for i := range x.exp.regs {
		if err := x.exp.regs[i].Invalidate(ctx); err != nil {
			p.rc.Conn.Abort(err)
			p.abandonExposed(x)
			break
		}
	}
	p.freeExposed(x)
}

// abandonExposed leaves memory that is still in use to the garbage collector.
func (p *rfc5666) abandonExposed(x *Call) {
	p.rc.cfg.Logger.Error("transport: exposed memory is still in use", zap.Uint32("rpcordma.xid", x.In.Header.XID))
	if x.exp.stream != nil {
		x.exp.stream.Abandon()
		x.exp.stream = nil
	}
	x.Resp.Lent.Abandon()
	x.Resp.Results = nil
	x.rpc = nil
}

// freeExposed ends the call of a reply that nobody can read anymore.
func (p *rfc5666) freeExposed(x *Call) {
	p.rc.Ctr.Exposed.Add(-1)
	_ = p.countExposed(-x.exp.octets) // less is no refusal
	if x.exp.stream != nil {
		x.exp.stream.Release()
	}
	clear(x.exp.regs)
	x.exp.regs, x.exp.mem, x.exp.stream = x.exp.regs[:0], x.exp.mem[:0], nil
	p.rc.Finish(x)
}

// done frees the reply that the client has read, and sends the replies that waited for that.
func (p *rfc5666) done(out *rpcrdma.Reply) {
	x := out.Owner.(*Call)
	p.rc.Ctr.Dones.Add(1)
	p.rc.Ctr.ReplyRead.Add(uint64(x.exp.octets))
	p.unexpose(x)
	p.exposeWithheld()
}

// end gives up the replies that were not read before the connection ended.
func (p *rfc5666) end() {
	p.rc.mu.Lock()
	withheld := p.withheld
	p.withheld = nil
	var open []*Call
	if p.rc.resp != nil {
		list, _ := p.rc.resp.Exposed() // their RDMA_DONE will not come
		for _, out := range list {
			open = append(open, out.Owner.(*Call))
		}
	}
	p.dones.stop()
	p.rc.mu.Unlock()
	for _, x := range withheld {
		_ = p.countExposed(-x.exp.octets) // less is no refusal
		p.rc.Finish(x)
	}
	for _, x := range open {
		p.unexpose(x)
	}
}

// exposedSent is the completion of an exposed reply's Send.
type exposedSent Call

// Complete releases the sender's ownership.
func (d *exposedSent) Complete(error) {
	x := (*Call)(d)
	x.rc.exposes.unexpose(x)
}

var _ verbs.Completer = (*exposedSent)(nil)

// doneWatch is the deadline of exposed replies: one timer for the oldest. Responder.mu guards it.
type doneWatch struct {
	timer   *time.Timer
	stopped bool
}

// arm notes that a reply was exposed.
func (w *doneWatch) arm(p *rfc5666) {
	if w.timer == nil && !w.stopped {
		w.timer = time.AfterFunc(p.cfg.DoneTimeout, func() { p.lookForDones() })
	}
}

func (w *doneWatch) stop() {
	w.stopped = true
	if w.timer != nil {
		w.timer.Stop()
		w.timer = nil
	}
}

// lookForDones ends the connection if its oldest exposed reply is out of time.
func (p *rfc5666) lookForDones() {
	p.rc.mu.Lock()
	defer p.rc.mu.Unlock()
	list, _ := p.rc.resp.Exposed()
	switch {
	case p.dones.stopped:
	case len(list) == 0:
		p.dones.timer = nil
	default:
		oldest := list[0].Owner.(*Call)
		// The oldest alone: the others have more time, and one timer is enough.
		if left := time.Until(oldest.exp.since.Add(p.cfg.DoneTimeout)); left > 0 {
			p.dones.timer.Reset(left)
			return
		}
		p.dones.timer = nil
		go p.rc.Conn.Abort(ErrNoDone)
	}
}

// configure answers the Connection Configuration Protocol (RFC 5666 Section 6), in both profiles,
// and applies what the client announces.
//
// Choice: it answers every such call, not only the first call of a connection, because the
// announced sizes cannot harm earlier calls.
func (rc *Responder) configure(x *Call) {
	x.Resp.Reset()
	x.SetRequest()
	r := &x.Resp
	if !rc.cfg.AnyCred || x.Req.RPCVers != xdr.RPCVersion {
		if h, refused := x.Req.Refusal(nil); refused {
			r.Refuse(h)
		}
	}
	switch {
	case r.Refused():
	case x.Req.Vers != rpcrdma.ConfigVersion:
		r.ProgMismatch(rpcrdma.ConfigVersion, rpcrdma.ConfigVersion)
	case x.Req.Proc == 0:
	case x.Req.Proc != rpcrdma.ConfigProc:
		r.Stat = xdr.ProcUnavail
	default:
		args, err := rpcrdma.ParseConfigArgs(x.Req.Args)
		if err != nil {
			r.Stat = xdr.GarbageArgs
			break
		}
		r.Results = rc.apply(args).Append(r.Results)
	}
	rc.Reply(x)
}

// apply applies the client's values and returns ours.
func (rc *Responder) apply(args rpcrdma.ConfigArgs) rpcrdma.ConfigReply {
	if args.MaxRead > 0 {
		rc.Conn.LimitORD(int(min(args.MaxRead, 1<<14)))
	}
	rc.mu.Lock()
	defer rc.mu.Unlock()
	rc.noPull = args.MaxRead == 0
	if rc.exposes != nil {
		rc.exposes.settled(true)
	}
	rc.resp.Configure(func(c *rpcrdma.ResponderConfig) {
		c.SendSize = rpcrdma.ConfigInline(rc.cfg.Private.SendSize, args.MaxReply, rc.agreed)
	})
	own := rpcrdma.ConfigReply{MaxCall: uint32(rc.inline), MaxRead: uint32(rc.Conn.ConnectionState().IRD)}
	if rc.exposes != nil {
		own.Align = uint32(max(rc.exposes.cfg.Align, 0))
	}
	return own
}
