package responder

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/stag-rdma/stag/internal/callid"
	"github.com/stag-rdma/stag/internal/peeraddr"
	"github.com/stag-rdma/stag/rdmap"
	"github.com/stag-rdma/stag/rdmap/region"
	"github.com/stag-rdma/stag/rdmap/verbs"
	"github.com/stag-rdma/stag/transport/internal/admit"
	"github.com/stag-rdma/stag/transport/internal/memory"
	"github.com/stag-rdma/stag/transport/rpc"
	"github.com/stag-rdma/stag/xdr"
	"go.uber.org/zap"
)

// deferral is the state of a call whose data are still at the client (see hand). It belongs to its call,
// and, while ServeRPC runs, to the handler's goroutine.
type deferral struct {
	x      *Call
	gen    atomic.Uint64 // number of the call: an Opaque of an earlier one is refused
	active bool          // this call's data were left at the client
	failed bool          // a pull has failed: there is no reply
	begun  bool          // the handler has asked for data
	got    int           // octets read
	sinks  []memory.Registration

	summing bool          // the call must not run twice: what is read is summed
	sums    callid.Pieces // of the data that were read
}

// ErrPullGivenUp ends a connection on which a handler no longer waits for RDMA Reads.
var ErrPullGivenUp = errors.New("transport: a handler's context ended before the RDMA Reads it waits for")

// Find implements [memory.Deferred].
func (l *deferral) Find(d *xdr.Decoder, most int) (chunk, n int, ok bool) {
	at := d.Offset() + 4 // a chunk stands for the octets behind a count word
	for i := range l.x.In.Layout.Chunks {
		if pos, n := l.x.In.Reduced(i); pos == at {
			if d.Skip(4); n > most {
				d.Fail(xdr.ErrRange)
				n = 0
			}
			return i, n, true
		}
	}
	return 0, 0, false
}

// Turn implements [memory.Deferred].
func (l *deferral) Turn() uint64 { return l.gen.Load() }

// Scratch implements [memory.Deferred].
func (l *deferral) Scratch(n int) []byte { return l.x.Resp.Scratch(n) }

// Pull implements [memory.Deferred]. Errors are OpErrors.
func (l *deferral) Pull(ctx context.Context, chunk, off int, bufs [][]byte) error {
	x, rc := l.x, l.x.rc
	l.begun = true // also if it fails: the handler may have done something
	if ctx.Err() != nil {
		return rpc.AsOpError(rpc.OpPull, peeraddr.Of(rc.Conn), context.Cause(ctx))
	}
	var err error
	for _, b := range bufs {
		var sink memory.Registration
		if sink, err = memory.Register(rc.Conn, rc.Ctr, b, nil, region.ReadSink); err != nil {
			break
		}
		l.sinks = append(l.sinks, sink)
	}
	if err == nil {
		x.appendReads(x.In.Layout.Chunks[chunk].Pos+off, bufs, l.sinks)
		err = l.wait(ctx)
	}
	if e := l.settle(); e != nil { // whatever went wrong before: this memory must never be reused
		err = e
	}
	if err != nil {
		l.failed = true
		rc.Conn.Abort(err) // unless it has ended: there will be no reply, and the client must not wait for one
		rc.cfg.Logger.Debug("transport: arguments not pulled", zap.Uint32("rpcordma.xid", x.In.Header.XID), zap.Error(err))
		return rpc.AsOpError(rpc.OpPull, peeraddr.Of(rc.Conn), err)
	}
	for _, b := range bufs {
		if l.summing {
			l.sums.Add(chunk, off, b)
			off += len(b)
		}
		rc.Ctr.Read.Add(uint64(len(b)))
		l.got += len(b)
	}
	wants := 0 // what the handler can ask for
	for i := range x.In.Layout.Chunks {
		_, n := x.In.Reduced(i)
		wants += n
	}
	if l.got >= wants {
		x.hold.Pulled() // others may be pulled while the handler continues
	}
	return nil
}

// appendReads makes the RDMA Reads of the octets of the unreduced message from at on.
func (x *Call) appendReads(at int, bufs [][]byte, sinks []memory.Registration) {
	x.wrs = x.wrs[:0]
	for i, b := range bufs {
		end := at + len(b)
		for j := range x.In.Layout.Pulls {
			p := &x.In.Layout.Pulls[j]
			// The client's segments and the handler's buffers end where they like: a Read for each part that both have.
			from, to := max(p.Dst, at), min(p.Dst+int(p.Length), end)
			if from >= to {
				continue
			}
			x.wrs = append(x.wrs, verbs.WR{
				Op: verbs.OpReadRequest, STag: memory.STag(p.Handle), TO: p.Offset + uint64(from-p.Dst),
				Sink: sinks[i].STag(), SinkTO: uint64(from - at), Len: uint32(to - from),
			})
		}
		at = end
	}
}

// wait posts the Reads in x.wrs, and returns when the last one, and so all of them, is complete, or
// the connection has ended.
func (l *deferral) wait(ctx context.Context) error {
	rc := l.x.rc
	var w *rdmap.Waiter
	rc.mu.Lock() // a connection has no more of them than calls
	if n := len(rc.waiters); n > 0 {
		w, rc.waiters = rc.waiters[n-1], rc.waiters[:n-1]
	}
	rc.mu.Unlock()
	if w == nil {
		w = new(rdmap.Waiter)
	}
	w.Reset() // it was completed when it was put there
	l.x.wrs[len(l.x.wrs)-1].Done = w
	// Only while it waits: the time that the handler takes between two pulls is not the client's.
	rc.gate.Awaits(&l.x.hold, admit.Pulling, 0)
	defer rc.gate.Awaits(&l.x.hold, admit.Still, 0)
	if err := rc.Conn.Post(l.x.wrs); err != nil {
		return err
	}
	err := rc.Conn.Wait(ctx, w)
	if !w.Done() { // it may still be completed, so it is not reused
		rc.Conn.Abort(ErrPullGivenUp)
		return err
	}
	rc.mu.Lock()
	rc.waiters = append(rc.waiters, w)
	rc.mu.Unlock()
	return err
}

// settle returns when the engine no longer touches the sinks. If it does not release one within
// Config.CloseTimeout, the error is region.ErrPinned.
func (l *deferral) settle() error {
	err := l.invalidate(memory.NoWait)
	if err != nil {
		ctx, cancel := context.WithTimeout(context.Background(), l.x.rc.cfg.CloseTimeout)
		defer cancel()
		if err = l.invalidate(ctx); err != nil {
			l.x.rc.Conn.Abort(err)
		}
	}
	clear(l.sinks)
	l.sinks = l.sinks[:0]
	return err
}

func (l *deferral) invalidate(ctx context.Context) (err error) {
	for i := range l.sinks { // all of them, also after an error: each is one that the peer can no longer reach
		if e := l.sinks[i].Revoke(ctx, l.x.rc.Ctr); e != nil {
			err = e
		}
	}
	return err
}

// reset ends the call.
func (l *deferral) reset() {
	if l.active {
		l.gen.Add(1) // an Opaque that the handler has kept is of another call now
		l.active, l.failed, l.begun, l.summing, l.got = false, false, false, false, 0
	}
}

// Handled ends the pulls of a call whose handler has returned. It reports whether there may be a reply.
func (x *Call) Handled() bool {
	if !x.away.active {
		return true
	}
	if !x.away.begun {
		x.rc.Ctr.Unpulled.Add(1)
	}
	x.away.gen.Add(1)     // before the reply is sent: then the client frees its memory
	return !x.away.failed // RFC 8166 Section 4.5.3: the connection has ended
}

// BeginSum implements execute.Deferred.
func (l *deferral) BeginSum() {
	l.summing = true
	l.sums.Reset(len(l.x.In.Layout.Chunks))
}

// Sum implements execute.Deferred.
func (l *deferral) Sum(args []byte) callid.Sum { return l.sums.Sum(args, l.x.In.Reduced) }

// ArgsLen implements execute.Deferred.
func (l *deferral) ArgsLen() int { return l.x.In.Unreduced() }

// Begun implements execute.Deferred.
func (l *deferral) Begun() bool { return l.begun }

// Failed implements execute.Deferred.
func (l *deferral) Failed() bool { return l.failed }

// Fetch reads all data of the call into pooled memory, and returns the complete arguments.
func (l *deferral) Fetch(ctx context.Context) ([]byte, error) {
	in := &l.x.In
	b := l.x.Resp.Scratch(in.Layout.Total) // those octets the call has taken before it was handed on
	in.Layout.Place(b, in.Payload)
	for i, c := range in.Layout.Chunks {
		_, n := in.Reduced(i)
		end := c.Pos + n
		clear(b[end : end+xdr.Pad(n)]) // the client may have put the pad into the chunk
		if n == 0 {
			continue
		}
		if err := l.Pull(ctx, i, 0, [][]byte{b[c.Pos:end]}); err != nil {
			return nil, err
		}
	}
	return b[len(b)-in.Unreduced():], nil
}
