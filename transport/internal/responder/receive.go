package responder

import (
	"context"
	"errors"

	"github.com/stag-rdma/stag/chunks"
	"github.com/stag-rdma/stag/internal/mutant"
	"github.com/stag-rdma/stag/rdmap"
	"github.com/stag-rdma/stag/rdmap/region"
	"github.com/stag-rdma/stag/rdmap/verbs"
	"github.com/stag-rdma/stag/rpcrdma"
	"github.com/stag-rdma/stag/transport/internal/admit"
	"github.com/stag-rdma/stag/transport/internal/mem"
	"github.com/stag-rdma/stag/transport/internal/register"
	"github.com/stag-rdma/stag/transport/rpc"
	"github.com/stag-rdma/stag/xdr"
	"go.uber.org/zap"
)

var _ rdmap.Handler = (*Responder)(nil)

// HandleRecv checks a Send, and passes it to the application, pulls its chunks, or refuses it.
func (rc *Responder) HandleRecv(conn *rdmap.Conn, m *verbs.Message) {
	if rc.Backward != nil && rpcrdma.ForRequester(m.Data, false) {
		rc.replied(conn, m)
		return
	}
	x := Calls.Get(rc)
	send := rc.profile.landed(x, m.Data)
	rc.mu.Lock()
	v := rc.resp.Receive(send, &x.In)
	rc.postReceives()
	over := rc.overCredit()
	stop := rc.draining || over || rc.gone // gone: this upcall has lost its role
	if !stop && v != rpcrdma.Drop && v != rpcrdma.Done {
		x.live = true
		rc.running++
		rc.seen()
	}
	if v == rpcrdma.Answer && x.live {
		rc.limitGrant(x)
		x.head = rc.resp.AppendAnswer(x.head[:0], &x.In)
	}
	rc.mu.Unlock()
	rc.Ctr.Inline.Add(uint64(len(m.Data)))
	if over {
		conn.Abort(ErrOverCredit)
	}
	if !x.live {
		out := x.In.Done
		if out == nil {
			rc.Ctr.Dropped.Add(1)
		}
		rc.Finish(x)
		if out != nil {
			rc.profile.done(out)
		}
		return
	}
	rc.Ctr.InFlight.Add(1)
	rc.Ctr.Segments.Add(&x.In.Header.Lists)
	traceReceived(rc.cfg.Trace, x.In.Header.XID, len(m.Data))
	rc.act(x, v, true)
}

// HandleClose tells the application, and lets serve return when no call runs.
func (rc *Responder) HandleClose(_ *rdmap.Conn, err error) {
	rc.app.Ended(err)
	for _, w := range rc.Peer.Cancel() {
		rc.Finish(w.(*Call))
	}
	rc.mu.Lock()
	rc.gone = true
	rc.leavePool()
	if rc.running == 0 {
		close(rc.quiet)
	}
	caller := rc.Requester
	rc.mu.Unlock()
	if caller != nil {
		caller.Ended(err)
	}
	rc.profile.end()
	close(rc.Over)
}

// act carries out the machine's verdict on a call.
func (rc *Responder) act(x *Call, v rpcrdma.Verdict, inline bool) {
	switch v {
	case rpcrdma.Answer:
		rc.refuse(x)
	case rpcrdma.Pull:
		rc.pull(x)
	case rpcrdma.Dispatch:
		rc.Ctr.Calls.Add(1)
		if x.In.RPC.Prog == rpcrdma.ConfigProgram {
			rc.configure(x)
			return
		}
		rc.dispatch(x, inline)
	default:
		rc.Finish(x)
	}
}

// refuse sends the answer in x.head; nothing was executed.
func (rc *Responder) refuse(x *Call) {
	rc.Ctr.Errors.Add(1)
	if e, ok := errors.AsType[*rpcrdma.BindingError](x.In.Err); ok {
		rc.wantsBinding(x.In.Header.XID, e)
	} else {
		rc.cfg.Logger.Debug("transport: call refused", zap.Uint32("rpcordma.xid", x.In.Header.XID), zap.Error(x.In.Err))
	}
	rc.send(x, nil)
}

// wantsBinding counts a call that gets ERR_CHUNK for want of a binding. The first one of a connection is worth a line:
// all calls of that kind will fail.
func (rc *Responder) wantsBinding(xid uint32, e *rpcrdma.BindingError) {
	if mutant.Is(mutant.BindingUnnamed) {
		return
	}
	rc.Ctr.Unbound.Add(1)
	log := rc.cfg.Logger.Debug
	if rc.unbound.CompareAndSwap(false, true) {
		log = rc.cfg.Logger.Warn
	}
	log("transport: ERR_CHUNK for want of a Binding", zap.Uint32("rpcordma.xid", xid), zap.Stringer("client", rc.Conn.RemoteAddr()), zap.Error(e))
}

// isReady asks the handler whether the data of a call may be pulled at once. Calls that are refused need no data.
func (rc *Responder) isReady(x *Call) bool {
	if rc.Ready == nil {
		return false
	}
	d := xdr.NewDecoder(x.In.Payload)
	_ = x.In.RPC.Parse(&d) // parsed without error before
	if _, refused := x.In.RPC.Refusal(nil); refused {
		return false
	}
	x.Req = rpc.Request{CallHeader: x.In.RPC, Args: d.Rest(), RemoteAddr: rc.addr, Network: "rdma"}
	return rc.Ready(&x.Req)
}

// pull reads the chunks of a call into the buffer that the handler will get.
func (rc *Responder) pull(x *Call) {
	total := x.In.Layout.Total
	if total > rc.cfg.MaxPayload { // RFC 8166 Section 8.1.4: refuse without reading
		rc.refuseChunk(x, chunks.ErrTooLarge)
		return
	}
	if rc.noPull {
		rc.refuseChunk(x, verbs.ErrNoORD)
		return
	}
	if rc.Lazy != nil && !x.In.Layout.Long && rc.Lazy(&x.In.RPC) && !rc.isReady(x) {
		if rc.Conn.ConnectionState().ORD == 0 { // otherwise the handler would find out
			rc.refuseChunk(x, verbs.ErrNoORD)
			return
		}
		rc.deferPull(x)
		return
	}
	if rc.admit(x, total+rc.replyOctets(x)+x.segmentsCost(), true, (*Call).pull) {
		rc.startPull(x)
	}
}

// pull starts a pull that had to wait.
func (x *Call) pull() { x.rc.startPull(x) }

// startPull makes the buffer and posts the Reads.
func (rc *Responder) startPull(x *Call) {
	x.buf, x.size = mem.Shared.Get(x.In.Layout.Total), x.In.Layout.Total
	x.In.Layout.Place(x.buf.Data, x.In.Payload)
	x.dropPayload()
	if len(x.In.Layout.Pulls) == 0 { // the chunks are empty
		go rc.pulled(x, false)
		return
	}
	rc.gate.Awaits(&x.hold, admit.Pulling, 0)
	err := rc.read(x)
	if err == nil {
		return
	}
	x.hold.Pulled()
	_ = x.sink.Revoke(register.NoWait, rc.Ctr) // no Read was posted
	if rc.Conn.Err() == nil {
		rc.refuseChunk(x, err) // no read depth was negotiated, or no region is left
		return
	}
	rc.Finish(x)
}

// read posts the RDMA Reads of a call. When the last one completes, all have.
func (rc *Responder) read(x *Call) error {
	sink, err := register.New(rc.Conn, rc.Ctr, x.buf.Data[:x.size], nil, region.ReadSink)
	if err != nil {
		return err
	}
	x.sink = sink
	x.wrs = x.wrs[:0]
	for i := range x.In.Layout.Pulls {
		p := &x.In.Layout.Pulls[i]
		x.wrs = append(x.wrs, verbs.WR{
			Op: verbs.OpReadRequest, STag: register.STag(p.Handle), TO: p.Offset,
			Sink: sink.STag(), SinkTO: uint64(p.Dst), Len: p.Length,
		})
	}
	x.wrs[len(x.wrs)-1].Done = (*pullDone)(x)
	return rc.Conn.Post(x.wrs)
}

// pullDone completes a call's RDMA Reads.
type pullDone Call

var _ verbs.UpcallCompleter = (*pullDone)(nil)

// Complete continues the call, or ends it with its connection: there is no answer to a call whose
// pull fails (RFC 8166 Section 4.5.3).
func (d *pullDone) Complete(err error) {
	x := (*Call)(d)
	if x.hold.Pulled(); err != nil {
		go x.rc.dropPulled(x)
		return
	}
	x.countPulled()
	go x.rc.pulled(x, false)
}

// CompleteUpcall continues the call in the goroutine that has read its chunks: waking another one
// costs more than a short call. It does not wait there for a sink that the engine has not released.
func (d *pullDone) CompleteUpcall() {
	x := (*Call)(d)
	x.hold.Pulled()
	x.countPulled()
	if x.sink.Revoke(register.NoWait, x.rc.Ctr) != nil {
		go x.rc.pulled(x, false)
		return
	}
	x.rc.pulled(x, true)
}

func (x *Call) countPulled() {
	octets := 0
	for i := range x.In.Layout.Pulls {
		octets += int(x.In.Layout.Pulls[i].Length)
	}
	x.rc.Ctr.Read.Add(uint64(octets))
	tracePulled(x.rc.cfg.Trace, x.In.Header.XID, octets)
}

// dropPulled ends a call whose pull failed.
func (rc *Responder) dropPulled(x *Call) {
	rc.settle(x)
	rc.Finish(x)
}

// settle waits until the engine no longer touches the sink of a pull. If the engine does not
// release it, the connection ends and the memory is left to the garbage collector.
func (rc *Responder) settle(x *Call) bool {
	if x.sink.Revoke(register.NoWait, rc.Ctr) == nil {
		return true
	}
	ctx, cancel := context.WithTimeout(context.Background(), rc.cfg.CloseTimeout)
	defer cancel()
	err := x.sink.Revoke(ctx, rc.Ctr)
	if err != nil {
		rc.Conn.Abort(err)
		x.buf.Abandon()
		x.buf = nil
	}
	return err == nil
}

// pulled continues a call whose chunks have arrived; inline says that it runs in an upcall.
func (rc *Responder) pulled(x *Call, inline bool) {
	if !rc.settle(x) {
		rc.Finish(x)
		return
	}
	rc.mu.Lock()
	v := rc.resp.Pulled(&x.In, x.buf.Data)
	if v == rpcrdma.Answer {
		rc.limitGrant(x)
		x.head = rc.resp.AppendAnswer(x.head[:0], &x.In)
	}
	rc.mu.Unlock()
	rc.act(x, v, inline)
}

// refuseChunk answers a call that was to be pulled with ERR_CHUNK.
func (rc *Responder) refuseChunk(x *Call, why error) {
	x.In.Err = why
	rc.mu.Lock()
	rc.limitGrant(x)
	x.head = rc.resp.AppendAnswer(x.head[:0], &x.In)
	rc.mu.Unlock()
	rc.refuse(x)
}
