package responder

import (
	"context"

	"github.com/stag-rdma/stag/chunks"
	"github.com/stag-rdma/stag/rdmap/region"
	"github.com/stag-rdma/stag/rdmap/verbs"
	"github.com/stag-rdma/stag/rpcrdma"
	"github.com/stag-rdma/stag/transport/internal/admit"
	"github.com/stag-rdma/stag/transport/internal/memory"
	"github.com/stag-rdma/stag/transport/rpc"
	"github.com/stag-rdma/stag/xdr"
)

// isLazy reports whether the data of a call stay at the client until its handler asks for them. Calls that are refused
// need no data, so that the handler is not asked whether it is ready for them.
func (rc *Responder) isLazy(x *Call) bool {
	if rc.Describe == nil || x.In.Layout.Long || x.In.RPC.Prog == rpcrdma.ConfigProgram {
		return false
	}
	d := xdr.NewDecoder(x.In.Payload)
	_ = x.In.RPC.Parse(&d) // parsed without error before
	x.Req = rpc.Request{CallHeader: x.In.RPC, Args: d.Rest(), RemoteAddr: rc.addr, Network: "rdma"}
	if !rc.Describe(&x.Req).Lazy {
		return false
	}
	_, refused := x.In.RPC.Refusal(nil)
	return refused || !rc.Ready(&x.Req)
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
	if rc.isLazy(x) {
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
	x.buf, x.size = memory.Shared.Get(x.In.Layout.Total), x.In.Layout.Total
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
	_ = x.sink.Revoke(memory.NoWait, rc.Ctr) // no Read was posted
	if rc.Conn.Err() == nil {
		rc.refuseChunk(x, err) // no read depth was negotiated, or no region is left
		return
	}
	rc.Finish(x)
}

// read posts the RDMA Reads of a call. When the last one completes, all have.
func (rc *Responder) read(x *Call) error {
	sink, err := memory.Register(rc.Conn, rc.Ctr, x.buf.Data[:x.size], nil, region.ReadSink)
	if err != nil {
		return err
	}
	x.sink = sink
	x.wrs = x.wrs[:0]
	for i := range x.In.Layout.Pulls {
		p := &x.In.Layout.Pulls[i]
		x.wrs = append(x.wrs, verbs.WR{
			Op: verbs.OpReadRequest, STag: memory.STag(p.Handle), TO: p.Offset,
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
	if x.sink.Revoke(memory.NoWait, x.rc.Ctr) != nil {
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
	if x.sink.Revoke(memory.NoWait, rc.Ctr) == nil {
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
