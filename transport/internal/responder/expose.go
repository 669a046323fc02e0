package responder

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/stag-rdma/stag/chunks"
	"github.com/stag-rdma/stag/rdmap/region"
	"github.com/stag-rdma/stag/rdmap/verbs"
	"github.com/stag-rdma/stag/rpcrdma"
	"github.com/stag-rdma/stag/transport/internal/mem"
	"github.com/stag-rdma/stag/transport/internal/register"
	"github.com/stag-rdma/stag/transport/rpc"
	"go.uber.org/zap"
)

// exposure is the memory of a reply that the client reads (RFC 5666 Section 3.8). It has two
// owners: the sender of the reply, and the receiver of the RDMA_DONE or of the end of the
// connection. The last one to release it frees it.
type exposure struct {
	owners atomic.Int32
	since  time.Time
	octets int64
	regs   []region.Region
	mem    []chunks.Segment
	stream *mem.Buffer // of a long reply
}

// ErrNoDone ends a connection whose client does not say that it has read a reply. RFC
// 5666 Section 3.8: "the server MAY conclude that a protocol violation has occurred and
// close the RPC connection".
var ErrNoDone = &rpc.SlowPeerError{What: "sends no RDMA_DONE for a reply exposed to it"}

// expose sends the reply in x.out.Expose, now or when others have been read.
func (rc *Responder) expose(x *Call) {
	x.exp.octets = 0
	for i := range x.out.Expose {
		x.exp.octets += int64(x.out.Expose[i].Octets)
	}
	over := rc.countExposed(x.exp.octets)
	rc.mu.Lock()
	if rc.gone || over != nil {
		gone := rc.gone
		if !gone {
			rc.resp.Refuse(x.head[:0], &x.In, &x.out)
		}
		rc.mu.Unlock()
		_ = rc.countExposed(-x.exp.octets) // less is no refusal
		if gone {
			rc.Finish(x)
			return
		}
		rc.Ctr.ExposedRefused.Add(1)
		x.out.Err = over
		rc.noFit(x)
		rc.send(x)
		return
	}
	x.out.Owner = x
	mine := len(rc.withheld) == 0 && rc.admitExposure(x)
	if !mine {
		rc.withheld = append(rc.withheld, x)
		rc.Ctr.Withheld.Add(1)
	}
	rc.mu.Unlock()
	if mine {
		rc.sendExposed(x)
	}
}

// countExposed counts n more octets of replies that wait to be read. If they are too many, the error is a
// *LimitError.
func (rc *Responder) countExposed(n int64) error {
	if all := rc.Ctr.ExposedOctets.Add(n); n > 0 && all > rc.cfg.RFC5666.ExposedMemory {
		rc.Peer.Expose(n)
		return &rpc.LimitError{Limit: rpc.LimitExposed, Client: rc.Peer.Addr(), Max: rc.cfg.RFC5666.ExposedMemory}
	}
	if !rc.Peer.Expose(n) {
		return &rpc.LimitError{Limit: rpc.LimitClientExposed, Client: rc.Peer.Addr(), Max: rc.Peer.Limits().Exposed}
	}
	return nil
}

// admitExposure exposes x if the limits permit. The caller holds rc.mu.
func (rc *Responder) admitExposure(x *Call) bool {
	if !rc.resp.Expose(&x.out) {
		return false
	}
	x.exp.owners.Store(2)
	x.exp.since = time.Now()
	rc.Ctr.Exposed.Add(1)
	rc.dones.arm(rc)
	rc.postReceives() // the RDMA_DONE needs one (RFC 5666 Section 3.8)
	return true
}

// exposeWithheld sends the replies that may be sent after an RDMA_DONE, oldest first.
func (rc *Responder) exposeWithheld() {
	for {
		rc.mu.Lock()
		if rc.gone || len(rc.withheld) == 0 || !rc.admitExposure(rc.withheld[0]) {
			rc.mu.Unlock()
			return
		}
		x := rc.withheld[0]
		rc.withheld[0] = nil
		rc.withheld = rc.withheld[1:]
		rc.mu.Unlock()
		rc.sendExposed(x)
	}
}

// sendExposed registers the memory of an admitted reply and sends it.
func (rc *Responder) sendExposed(x *Call) {
	if err := rc.registerExposed(x); err != nil {
		rc.Conn.Abort(err) // RFC 8166 Section 4.5.4: no reply can be sent
		rc.unexpose(x)
		return
	}
	rc.mu.Lock()
	x.head = rc.resp.AppendExposed(x.head[:0], &x.In, &x.out, x.exp.mem)
	rc.mu.Unlock()
	rc.send(x)
}

// registerExposed makes exactly the octets of the reply readable, and no others.
func (rc *Responder) registerExposed(x *Call) error {
	e := &x.exp
	for i := range x.out.Expose {
		part := &x.out.Expose[i]
		data := part.Data
		if data == nil {
			e.stream = mem.Shared.Get(part.Octets)
			data = x.out.AppendStream(e.stream.Data[:0])
		}
		seg := chunks.Segment{Length: uint32(len(data))}
		if len(data) > 0 {
			reg, err := rc.Conn.Register(data, region.RemoteRead)
			if err != nil {
				return err
			}
			rc.Ctr.Registered.Add(1)
			e.regs = append(e.regs, reg)
			seg.Handle = register.Handle(reg.STag())
		}
		e.mem = append(e.mem, seg)
	}
	return nil
}

// unexpose releases one ownership; the last one frees the memory.
func (rc *Responder) unexpose(x *Call) {
	if x.exp.owners.Add(-1) > 0 {
		return
	}
	for i := range x.exp.regs {
		if x.exp.regs[i].Invalidate(register.NoWait) != nil {
			go rc.settleExposed(x) // not here: this may be an upcall
			return
		}
	}
	rc.freeExposed(x)
}

// settleExposed waits until no RDMA Read touches the memory anymore. If the engine does not release
// the memory, it is never reused.
func (rc *Responder) settleExposed(x *Call) {
	ctx, cancel := context.WithTimeout(context.Background(), rc.cfg.CloseTimeout)
	defer cancel()
	for i := range x.exp.regs {
		if err := x.exp.regs[i].Invalidate(ctx); err != nil {
			rc.Conn.Abort(err)
			rc.abandonExposed(x)
			break
		}
	}
	rc.freeExposed(x)
}

// abandonExposed leaves memory that is still in use to the garbage collector.
func (rc *Responder) abandonExposed(x *Call) {
	rc.cfg.Logger.Error("transport: exposed memory is still in use", zap.Uint32("rpcordma.xid", x.In.Header.XID))
	if x.exp.stream != nil {
		x.exp.stream.Abandon()
		x.exp.stream = nil
	}
	x.Resp.Abandon()
	x.rpc = nil
}

// freeExposed ends the call of a reply that nobody can read anymore.
func (rc *Responder) freeExposed(x *Call) {
	rc.Ctr.Exposed.Add(-1)
	_ = rc.countExposed(-x.exp.octets) // less is no refusal
	if x.exp.stream != nil {
		x.exp.stream.Release()
	}
	clear(x.exp.regs)
	x.exp.regs, x.exp.mem, x.exp.stream = x.exp.regs[:0], x.exp.mem[:0], nil
	rc.Finish(x)
}

// handleDone frees the reply that the client has read, and sends the replies that waited for that.
func (rc *Responder) handleDone(out *rpcrdma.Reply) {
	x := out.Owner.(*Call)
	rc.Ctr.Dones.Add(1)
	rc.Ctr.ReplyRead.Add(uint64(x.exp.octets))
	rc.unexpose(x)
	rc.exposeWithheld()
}

// endExposures gives up the replies that were not read before the connection ended. rc.gone is set.
func (rc *Responder) endExposures() {
	rc.mu.Lock()
	withheld := rc.withheld
	rc.withheld = nil
	var open []*Call
	if rc.resp != nil {
		list, _ := rc.resp.Exposed()
		for _, out := range list {
			open = append(open, out.Owner.(*Call))
		}
	}
	rc.dones.stop()
	rc.mu.Unlock()
	for _, x := range withheld {
		_ = rc.countExposed(-x.exp.octets) // less is no refusal
		rc.Finish(x)
	}
	for _, x := range open {
		rc.unexpose(x)
	}
}

// exposedSent is the completion of an exposed reply's Send.
type exposedSent Call

// Complete releases the sender's ownership.
func (d *exposedSent) Complete(error) {
	x := (*Call)(d)
	x.rc.unexpose(x)
}

var _ verbs.Completer = (*exposedSent)(nil)

// doneWatch is the deadline of exposed replies: one timer for the oldest. Responder.mu guards it.
type doneWatch struct {
	timer   *time.Timer
	stopped bool
}

// arm notes that a reply was exposed.
func (w *doneWatch) arm(rc *Responder) {
	if w.timer == nil && !w.stopped {
		w.timer = time.AfterFunc(rc.cfg.RFC5666.DoneTimeout, func() { rc.lookForDones() })
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
func (rc *Responder) lookForDones() {
	rc.mu.Lock()
	defer rc.mu.Unlock()
	list, _ := rc.resp.Exposed()
	switch {
	case rc.dones.stopped:
	case len(list) == 0:
		rc.dones.timer = nil
	default:
		oldest := list[0].Owner.(*Call)
		if left := time.Until(oldest.exp.since.Add(rc.cfg.RFC5666.DoneTimeout)); left > 0 {
			rc.dones.timer.Reset(left)
			return
		}
		rc.dones.timer = nil
		go rc.Conn.Abort(ErrNoDone)
	}
}
