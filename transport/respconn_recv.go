package transport

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
	"go.uber.org/zap"
)

// respUpcalls has the upcalls of a respConn.
type respUpcalls respConn

var _ rdmap.Handler = (*respUpcalls)(nil)

// HandleRecv checks a Send, and passes it to the application, pulls its chunks, or refuses it.
func (h *respUpcalls) HandleRecv(conn *rdmap.Conn, m *verbs.Message) {
	rc := (*respConn)(h)
	if rc.backward != nil && rpcrdma.ForRequester(m.Data, false) {
		rc.replied(conn, m)
		return
	}
	x := exchanges.get(rc)
	send := rc.landed(x, m.Data)
	rc.mu.Lock()
	v := rc.resp.Receive(send, &x.in)
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
		x.head = rc.resp.AppendAnswer(x.head[:0], &x.in)
	}
	rc.mu.Unlock()
	rc.ctr.Inline.Add(uint64(len(m.Data)))
	if over {
		conn.Abort(errOverCredit)
	}
	if !x.live {
		out := x.in.Done
		if out == nil {
			rc.ctr.Dropped.Add(1)
		}
		rc.finish(x)
		if out != nil {
			rc.handleDone(out)
		}
		return
	}
	rc.ctr.InFlight.Add(1)
	rc.ctr.Segments.Add(&x.in.Header.Lists)
	traceReceived(rc.cfg.Trace, x.in.Header.XID, len(m.Data))
	rc.act(x, v, true)
}

// HandleClose tells the application, and lets serve return when no call runs.
func (h *respUpcalls) HandleClose(_ *rdmap.Conn, err error) {
	rc := (*respConn)(h)
	rc.app.ended(err)
	for _, w := range rc.peer.Cancel() {
		rc.finish(w.(*exchange))
	}
	rc.mu.Lock()
	rc.gone = true
	rc.leavePool()
	if rc.running == 0 {
		close(rc.quiet)
	}
	caller := rc.caller
	rc.mu.Unlock()
	if caller != nil {
		caller.Ended(err)
	}
	rc.endExposures()
	close(rc.over)
}

// act carries out the machine's verdict on a call.
func (rc *respConn) act(x *exchange, v rpcrdma.Verdict, inline bool) {
	switch v {
	case rpcrdma.Answer:
		rc.refuse(x)
	case rpcrdma.Pull:
		rc.pull(x)
	case rpcrdma.Dispatch:
		rc.ctr.Calls.Add(1)
		if x.in.RPC.Prog == rpcrdma.ConfigProgram {
			rc.configure(x)
			return
		}
		rc.dispatch(x, inline)
	default:
		rc.finish(x)
	}
}

// refuse sends the answer in x.head; nothing was executed.
func (rc *respConn) refuse(x *exchange) {
	rc.ctr.Errors.Add(1)
	if e, ok := errors.AsType[*rpcrdma.BindingError](x.in.Err); ok {
		rc.wantsBinding(x.in.Header.XID, e)
	} else {
		rc.cfg.Logger.Debug("transport: call refused", zap.Uint32("rpcordma.xid", x.in.Header.XID), zap.Error(x.in.Err))
	}
	rc.send(x)
}

// wantsBinding counts a call that gets ERR_CHUNK for want of a binding. The first one of a connection is worth a line:
// all calls of that kind will fail.
func (rc *respConn) wantsBinding(xid uint32, e *rpcrdma.BindingError) {
	if mutant.Is(mutant.BindingUnnamed) {
		return
	}
	rc.ctr.Unbound.Add(1)
	log := rc.cfg.Logger.Debug
	if rc.unbound.CompareAndSwap(false, true) {
		log = rc.cfg.Logger.Warn
	}
	log("transport: ERR_CHUNK for want of a Binding", zap.Uint32("rpcordma.xid", xid), zap.Stringer("client", rc.conn.RemoteAddr()), zap.Error(e))
}

// pull reads the chunks of a call into the buffer that the handler will get.
func (rc *respConn) pull(x *exchange) {
	total := x.in.Layout.Total
	if total > rc.cfg.MaxPayload { // RFC 8166 Section 8.1.4: refuse without reading
		rc.refuseChunk(x, chunks.ErrTooLarge)
		return
	}
	if rc.noPull {
		rc.refuseChunk(x, verbs.ErrNoORD)
		return
	}
	if rc.lazy != nil && !x.in.Layout.Long && rc.lazy(&x.in.RPC) && (rc.ready == nil || !rc.ready(x)) {
		if rc.conn.ConnectionState().ORD == 0 { // otherwise the handler would find out
			rc.refuseChunk(x, verbs.ErrNoORD)
			return
		}
		rc.deferPull(x)
		return
	}
	if rc.admit(x, total+rc.replyOctets(x), true, (*exchange).pull) {
		rc.startPull(x)
	}
}

// pull starts a pull that had to wait.
func (x *exchange) pull() { x.rc.startPull(x) }

// startPull makes the buffer and posts the Reads.
func (rc *respConn) startPull(x *exchange) {
	x.buf, x.size = mem.Shared.Get(x.in.Layout.Total), x.in.Layout.Total
	x.in.Layout.Place(x.buf.Data, x.in.Payload)
	x.dropPayload()
	if len(x.in.Layout.Pulls) == 0 { // the chunks are empty
		go rc.pulled(x, false)
		return
	}
	rc.gate.Awaits(&x.hold, admit.Pulling, 0)
	err := rc.read(x)
	if err == nil {
		return
	}
	x.hold.Pulled()
	_ = x.sink.Revoke(register.NoWait, rc.ctr) // no Read was posted
	if rc.conn.Err() == nil {
		rc.refuseChunk(x, err) // no read depth was negotiated, or no region is left
		return
	}
	rc.finish(x)
}

// read posts the RDMA Reads of a call. When the last one completes, all have.
func (rc *respConn) read(x *exchange) error {
	sink, err := register.New(rc.conn, rc.ctr, x.buf.Data[:x.size], nil, region.ReadSink)
	if err != nil {
		return err
	}
	x.sink = sink
	x.wrs = x.wrs[:0]
	for i := range x.in.Layout.Pulls {
		p := &x.in.Layout.Pulls[i]
		x.wrs = append(x.wrs, verbs.WR{
			Op: verbs.OpReadRequest, STag: register.STag(p.Handle), TO: p.Offset,
			Sink: sink.STag(), SinkTO: uint64(p.Dst), Len: p.Length,
		})
	}
	x.wrs[len(x.wrs)-1].Done = (*pullDone)(x)
	return rc.conn.Post(x.wrs)
}

// pullDone completes an exchange's RDMA Reads.
type pullDone exchange

var _ rdmap.UpcallCompleter = (*pullDone)(nil)

// Complete continues the call, or ends it with its connection: there is no answer to a call whose
// pull fails (RFC 8166 Section 4.5.3).
func (d *pullDone) Complete(err error) {
	x := (*exchange)(d)
	if x.hold.Pulled(); err != nil {
		go x.rc.dropPulled(x)
		return
	}
	x.countPulled()
	go x.rc.pulled(x, false)
}

// CompleteUpcall continues the call in the goroutine that has read its chunks: waking another one
// costs more than a short call. It does not wait there for a sink that the engine has not released.
func (d *pullDone) CompleteUpcall(*rdmap.Conn) {
	x := (*exchange)(d)
	x.hold.Pulled()
	x.countPulled()
	if x.sink.Revoke(register.NoWait, x.rc.ctr) != nil {
		go x.rc.pulled(x, false)
		return
	}
	x.rc.pulled(x, true)
}

func (x *exchange) countPulled() {
	octets := 0
	for i := range x.in.Layout.Pulls {
		octets += int(x.in.Layout.Pulls[i].Length)
	}
	x.rc.ctr.Read.Add(uint64(octets))
	tracePulled(x.rc.cfg.Trace, x.in.Header.XID, octets)
}

// dropPulled ends a call whose pull failed.
func (rc *respConn) dropPulled(x *exchange) {
	rc.settle(x)
	rc.finish(x)
}

// settle waits until the engine no longer touches the sink of a pull. If the engine does not
// release it, the connection ends and the memory is left to the garbage collector.
func (rc *respConn) settle(x *exchange) bool {
	if x.sink.Revoke(register.NoWait, rc.ctr) == nil {
		return true
	}
	ctx, cancel := context.WithTimeout(context.Background(), rc.cfg.Timeouts.Close)
	defer cancel()
	err := x.sink.Revoke(ctx, rc.ctr)
	if err != nil {
		rc.conn.Abort(err)
		x.buf.Abandon()
		x.buf = nil
	}
	return err == nil
}

// pulled continues a call whose chunks have arrived; inline says that it runs in an upcall.
func (rc *respConn) pulled(x *exchange, inline bool) {
	if !rc.settle(x) {
		rc.finish(x)
		return
	}
	rc.mu.Lock()
	v := rc.resp.Pulled(&x.in, x.buf.Data)
	if v == rpcrdma.Answer {
		rc.limitGrant(x)
		x.head = rc.resp.AppendAnswer(x.head[:0], &x.in)
	}
	rc.mu.Unlock()
	rc.act(x, v, inline)
}

// refuseChunk answers a call that was to be pulled with ERR_CHUNK.
func (rc *respConn) refuseChunk(x *exchange, why error) {
	x.in.Err = why
	rc.mu.Lock()
	rc.limitGrant(x)
	x.head = rc.resp.AppendAnswer(x.head[:0], &x.in)
	rc.mu.Unlock()
	rc.refuse(x)
}
