package responder

import (
	"context"
	"errors"

	"github.com/stag-rdma/stag/chunks"
	"github.com/stag-rdma/stag/internal/list"
	"github.com/stag-rdma/stag/rdmap"
	"github.com/stag-rdma/stag/rdmap/region"
	"github.com/stag-rdma/stag/rdmap/verbs"
	"github.com/stag-rdma/stag/rpcrdma"
	"github.com/stag-rdma/stag/transport/internal/admit"
	"github.com/stag-rdma/stag/transport/internal/memory"
	"github.com/stag-rdma/stag/transport/rpc"
	"github.com/stag-rdma/stag/xdr"
	"go.uber.org/zap"
)

var _ rdmap.Handler = (*Responder)(nil)

// HandleRecv takes a Send of the client, in the goroutine that reads. It is one of these:
//
//   - A reply to a backward call, or one that nobody expects (RFC 8167): its requester takes it.
//   - An RDMA_DONE (RFC 5666): the reply that the client has read is freed.
//   - What no rule has an answer to, and any call while the connection drains or ends: only its receive is used up.
//   - A call that breaks a rule: an RDMA_ERROR, or GARBAGE_ARGS. Nothing has run, and nothing was pulled.
//   - A call that came whole: it goes to the server above, here.
//   - A call with read chunks: they are pulled, and pulled goes on when the last one has come.
//   - A call with read chunks whose handler pulls them (lazy): it goes to the server above, in a goroutine.
//
// The last three first take what they will hold of the budget. If they have to wait for it, Granted goes on, without the
// Send, which is lent only here.
func (rc *Responder) HandleRecv(conn *rdmap.Conn, m *verbs.Message) {
	if rc.Backward != nil && rpcrdma.ForRequester(m.Data, false) {
		rc.replied(conn, m)
		return
	}
	x, send := rc.NewCall(), m.Data
	if rc.exposes != nil {
		send = rc.landed(x, send)
	}
	in := &x.In
	rc.mu.Lock()
	v := rc.resp.Receive(send, in)
	rc.postReceives() // whatever it is: the Send has used one up that was promised to the client
	over := rc.overCredit()
	// gone: this goroutine has lost the reading role to one that has seen the end. HandleClose does not wait for this call.
	if v != rpcrdma.Drop && v != rpcrdma.Done && !over && !rc.draining && !rc.gone {
		x.live = true
		rc.running++
		rc.seen()
		if v == rpcrdma.Answer {
			rc.formAnswer(x)
		}
	}
	rc.mu.Unlock()
	rc.Ctr.Inline.Add(uint64(len(m.Data)))
	if over {
		conn.Abort(ErrOverCredit)
	}
	if !x.live {
		read := in.Done
		rc.Finish(x)
		if read != nil {
			rc.exposes.done(read)
		} else {
			rc.Ctr.Dropped.Add(1)
		}
		return
	}
	rc.Ctr.InFlight.Add(1)
	rc.Ctr.Segments.Add(&in.Header.Lists)
	if t := rc.cfg.Trace; t != nil && t.Received != nil {
		t.Received(in.Header.XID, len(m.Data))
	}

	switch v {
	case rpcrdma.Dispatch:
		rc.Ctr.Calls.Add(1)
		if in.RPC.Prog == rpcrdma.ConfigProgram {
			rc.configure(x)
			return
		}
		n := rc.reckon(x)
		if k := len(in.Payload); k > admit.Page {
			n += k
		}
		// A call that needs nothing has no ticket to wait with, unless too much is overdrawn already.
		if n == 0 && rc.Peer.Open() || n > 0 && x.hold.Try(n, false) {
			rc.app.Dispatch(x, true)
			return
		}
		x.Own()
		x.next = toDispatch
		if x.hold.Acquire(n-x.hold.Octets(), false, x) { // Own has taken some of it
			rc.app.Dispatch(x, true)
		}

	case rpcrdma.Pull:
		if in.Layout.Total > rc.cfg.MaxPayload { // RFC 8166 Section 8.1.4: refuse without reading
			rc.refuseChunk(x, chunks.ErrTooLarge)
			return
		}
		if rc.noPull {
			rc.refuseChunk(x, verbs.ErrNoORD)
			return
		}
		x.next = toPull
		if rc.isLazy(x) {
			if conn.ConnectionState().ORD == 0 { // otherwise the handler would find out
				rc.refuseChunk(x, verbs.ErrNoORD)
				return
			}
			// The octets are taken all the same, before the handler runs: a handler that holds a lock must not
			// wait for memory that is held by others who wait for the lock.
			x.next = toHand
		}
		n := in.Layout.Total + rc.reckon(x)
		if !x.hold.Try(n, true) {
			x.keepPayload() // first: once the ticket is in a queue, another goroutine may go on with the call
			if !x.hold.Acquire(n, true, x) {
				return
			}
		}
		rc.goOn(x)

	case rpcrdma.Answer:
		rc.refuse(x)

	case rpcrdma.Drop, rpcrdma.Done: // above
	}
}

// Granted continues a call that had to wait for memory. Whoever has returned that memory calls it, and must not be kept.
func (x *Call) Granted() { go x.rc.goOn(x) }

// goOn is the second half of HandleRecv: the call has its memory.
func (rc *Responder) goOn(x *Call) {
	switch x.next {
	case toDispatch:
		rc.app.Dispatch(x, false)
	case toPull:
		rc.pull(x)
	case toHand:
		rc.hand(x)
	}
}

// isLazy reports whether the data of a call stay at the client until its handler asks for them.
func (rc *Responder) isLazy(x *Call) bool {
	if x.In.Layout.Long || x.In.RPC.Prog == rpcrdma.ConfigProgram {
		return false // it has no header yet; it is answered here
	}
	d := xdr.NewDecoder(x.In.Payload)
	_ = x.In.RPC.Parse(&d) // parsed without error before
	x.Req = rpc.Request{CallHeader: x.In.RPC, Args: d.Rest(), RemoteAddr: rc.addr, Network: "rdma"}
	return rc.app.Lazy(&x.Req)
}

// hand passes a lazy call to the server above, and its data stay at the client (deferred.go).
func (rc *Responder) hand(x *Call) {
	x.keepPayload()
	d := xdr.NewDecoder(x.In.Payload) // again, because the views were of the Send
	_ = x.In.RPC.Parse(&d)
	x.In.Args = d.Rest()
	rc.mu.Lock()
	v := rc.resp.Defer(&x.In)
	if v == rpcrdma.Answer {
		rc.formAnswer(x)
	}
	rc.mu.Unlock()
	if v == rpcrdma.Answer {
		rc.refuse(x)
		return
	}
	x.away.x, x.away.active = x, true
	rc.Ctr.Calls.Add(1)
	rc.Ctr.Deferred.Add(1)
	// In a goroutine: a handler that waits for RDMA Reads cannot be the goroutine that reads.
	go rc.app.Dispatch(x, false)
}

// pullAhead is how many octets may still be due of what was asked for when the chunks of the next call are asked for: the
// client is told of those before it has sent all of these. If eight calls of 1 MiB are pulled at once, sinks and socket
// buffers have left the caches of the processor before they are used again, and both ends take an eighth more time.
const pullAhead = 512 << 10

// pulls is what a connection pulls, guarded by Responder.mu.
type pulls struct {
	waiting list.List[Call] // whose chunks were not asked for yet, in the order in which they may be
	due     int             // octets that were asked for and have not come
}

// pull reads the chunks of a call, after those of the calls before it.
func (rc *Responder) pull(x *Call) {
	n := x.In.Layout.Total
	rc.mu.Lock()
	now := rc.pulls.waiting.Len() == 0 && rc.pulls.due <= pullAhead
	if now {
		rc.pulls.due += n
	} else {
		x.keepPayload() // the Send is lent only in the upcall
		rc.pulls.waiting.Push(&x.Place, x)
	}
	rc.mu.Unlock()
	if now && !rc.ask(x) {
		rc.pulledSome(n)
	}
}

// pulledSome notes that n octets of chunks have come, or never will, and asks for those of calls that wait. After the end of
// the connection each of these fails, and makes room for the next.
func (rc *Responder) pulledSome(n int) {
	for {
		rc.mu.Lock()
		rc.pulls.due -= n
		x := rc.pulls.waiting.First()
		if x == nil || rc.pulls.due > pullAhead {
			rc.mu.Unlock()
			return
		}
		x.Place.Leave()
		n = x.In.Layout.Total
		rc.pulls.due += n
		rc.mu.Unlock()
		if rc.ask(x) {
			n = 0
		}
	}
}

// ask posts the RDMA Reads of the chunks of a call, into the buffer that the handler will get. If it returns false, there are
// none, and the call goes on or is over.
func (rc *Responder) ask(x *Call) bool {
	in := &x.In.Layout
	x.buf, x.size = memory.Shared.Get(in.Total), in.Total
	in.Place(x.buf.Data, x.In.Payload)
	x.dropPayload()
	if len(in.Pulls) == 0 { // the chunks are empty
		go rc.pulled(x, false)
		return false
	}
	// From here on the peer has to move its octets in time.
	rc.gate.Awaits(&x.hold, admit.Pulling, 0)
	var err error
	x.sink, err = memory.Register(rc.Conn, rc.Ctr, x.buf.Data[:x.size], nil, region.ReadSink)
	if err == nil {
		x.wrs = x.wrs[:0]
		for i := range in.Pulls {
			p := in.Pulls[i] // a copy
			for more := true; more; {
				n := min(p.Length, pullAhead) // so that one of them ends where the next call may be asked for
				x.wrs = append(x.wrs, verbs.WR{
					Op: verbs.OpReadRequest, STag: memory.STag(p.Handle), TO: p.Offset,
					Sink: x.sink.STag(), SinkTO: uint64(p.Dst), Len: n,
				})
				p.Offset, p.Dst, p.Length = p.Offset+uint64(n), p.Dst+int(n), p.Length-n
				more = p.Length > 0
			}
		}
		// Reads complete in the order in which they were posted (RFC 5040 Section 5.5): the last one stands for all, and
		// the one before the last pullAhead octets for those up to there.
		last, rest := len(x.wrs)-1, 0
		x.wrs[last].Done = (*pullDone)(x)
		for i := last; i > 0; i-- {
			if rest += int(x.wrs[i].Len); rest+int(x.wrs[i-1].Len) > pullAhead {
				x.wrs[i-1].Done = &pulledPart{rc, x.size - rest}
				x.part = x.size - rest
				break
			}
		}
		if err = rc.Conn.Post(x.wrs); err == nil {
			return true // x may be elsewhere already
		}
	}
	x.hold.Pulled()
	_ = x.sink.Revoke(memory.NoWait, rc.Ctr) // no Read was posted
	if rc.Conn.Err() == nil {
		rc.refuseChunk(x, err) // no read depth was negotiated, or no region is left
	} else {
		rc.Finish(x)
	}
	return false
}

// pulledPart completes the RDMA Reads of the first n octets of a call. It is not the Call: completions come from any
// goroutine, and after the last one the call may be another.
type pulledPart struct {
	rc *Responder
	n  int
}

// Complete makes room for others.
func (p *pulledPart) Complete(error) { p.rc.pulledSome(p.n) }

// pullDone completes a call's RDMA Reads.
type pullDone Call

var _ verbs.UpcallCompleter = (*pullDone)(nil)

// Complete continues the call, or ends it with its connection: there is no answer to a call whose
// pull fails (RFC 8166 Section 4.5.3).
func (d *pullDone) Complete(err error) {
	x := (*Call)(d)
	x.hold.Pulled() // others may be pulled
	x.rc.pulledSome(x.size - x.part)
	if err == nil {
		x.countPulled()
		go x.rc.pulled(x, false)
		return
	}
	go func() { // settle may wait
		x.rc.settle(x)
		x.rc.Finish(x)
	}()
}

// CompleteUpcall continues the call in the goroutine that has read its chunks: waking another one
// costs more than a short call. It does not wait there for a sink that the engine has not released.
func (d *pullDone) CompleteUpcall() {
	x := (*Call)(d)
	x.hold.Pulled()
	x.rc.pulledSome(x.size - x.part)
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
	if t := x.rc.cfg.Trace; t != nil && t.Pulled != nil {
		t.Pulled(x.In.Header.XID, octets)
	}
}

// pulled continues a call whose chunks have arrived; inline says that it runs in an upcall. The message is checked only
// now: until the sink is revoked, the peer could still change it.
func (rc *Responder) pulled(x *Call, inline bool) {
	if !rc.settle(x) {
		rc.Finish(x)
		return
	}
	rc.mu.Lock()
	v := rc.resp.Pulled(&x.In, x.buf.Data)
	if v == rpcrdma.Answer {
		rc.formAnswer(x)
	}
	rc.mu.Unlock()
	if v == rpcrdma.Answer {
		rc.refuse(x)
		return
	}
	rc.Ctr.Calls.Add(1)
	if x.In.RPC.Prog == rpcrdma.ConfigProgram {
		rc.configure(x)
		return
	}
	// It must not wait here for calls that wait for its memory: what its reply takes it has taken before it was pulled.
	rc.app.Dispatch(x, inline)
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

// formAnswer makes the Send that refuses a call. The caller holds rc.mu.
func (rc *Responder) formAnswer(x *Call) {
	rc.limitGrant(x)
	x.head = rc.resp.AppendAnswer(x.head[:0], &x.In)
}

// refuse sends that Send; nothing was executed.
func (rc *Responder) refuse(x *Call) {
	rc.Ctr.Errors.Add(1)
	if e, ok := errors.AsType[*rpcrdma.BindingError](x.In.Err); ok {
		rc.wantsBinding(x.In.Header.XID, e)
	} else {
		rc.cfg.Logger.Debug("transport: call refused", zap.Uint32("rpcordma.xid", x.In.Header.XID), zap.Error(x.In.Err))
	}
	rc.send(x, nil)
}

// refuseChunk answers a call with ERR_CHUNK.
func (rc *Responder) refuseChunk(x *Call, why error) {
	x.In.Err = why
	rc.mu.Lock()
	rc.formAnswer(x)
	rc.mu.Unlock()
	rc.refuse(x)
}

// wantsBinding counts a call that gets ERR_CHUNK for want of a binding. The first one of a connection is worth a line:
// all calls of that kind will fail.
func (rc *Responder) wantsBinding(xid uint32, e *rpcrdma.BindingError) {
	rc.Ctr.Unbound.Add(1)
	log := rc.cfg.Logger.Debug
	if rc.unbound.CompareAndSwap(false, true) {
		log = rc.cfg.Logger.Warn
	}
	log("transport: ERR_CHUNK for want of a Binding", zap.Uint32("rpcordma.xid", xid), zap.Stringer("client", rc.Conn.RemoteAddr()), zap.Error(e))
}
