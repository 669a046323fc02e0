package responder

import (
	"errors"

	"github.com/stag-rdma/stag/rdmap"
	"github.com/stag-rdma/stag/rdmap/verbs"
	"github.com/stag-rdma/stag/rpcrdma"
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
	rc.Ctr.Unbound.Add(1)
	log := rc.cfg.Logger.Debug
	if rc.unbound.CompareAndSwap(false, true) {
		log = rc.cfg.Logger.Warn
	}
	log("transport: ERR_CHUNK for want of a Binding", zap.Uint32("rpcordma.xid", xid), zap.Stringer("client", rc.Conn.RemoteAddr()), zap.Error(e))
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
