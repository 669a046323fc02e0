package redial

import (
	"sync"
	"time"

	"github.com/stag-rdma/stag/internal/list"
	"github.com/stag-rdma/stag/transport/rpc"
)

// pending is one call of a Caller from Do to its end; it is reused.
type pending struct {
	call  rpc.Call // as passed to the connections
	tx    rpc.Transmission
	at    time.Time       // of the last transmission; then when its caller left
	link  *link           // of that transmission
	free  func()          // freed, as a value
	again func(*rpc.Call) // repeated, as a value

	place list.Node[pending] // in Caller.out or left

	mu     sync.Mutex
	user   func() // Call.Free
	unused bool   // no connection uses the memory
	over   bool   // Do has ended
}

// maxIdleCalls limits the calls kept for reuse.
const maxIdleCalls = 256

// nullProc is the procedure of every program that does nothing (RFC 5531 Section 12.1).
const nullProc = 0

// outcome returns the error of a call; lost says that it may have run all the same.
func (t *pending) outcome(err error, lost bool) error {
	if err == nil || !lost || t.call.Proc == nullProc {
		return err
	}
	return &rpc.OutcomeError{
		XID: t.tx.XID, Prog: t.call.Prog, Vers: t.call.Vers, Proc: t.call.Proc,
		Sent: t.tx.Sent, Repeatable: t.call.Repeatable, Err: err,
	}
}

// newCall returns a call with a new XID.
func (r *Caller) newCall(call *rpc.Call) *pending {
	r.mu.Lock()
	var t *pending
	if n := len(r.idle); n > 0 {
		t = r.idle[n-1]
		r.idle = r.idle[:n-1]
	}
	r.mu.Unlock()
	if t == nil {
		t = new(pending)
		t.free, t.again = func() { r.freed(t) }, func(call *rpc.Call) { r.repeated(t, call) }
	}
	t.call, t.user, t.unused = *call, call.Free, true
	t.tx = rpc.Transmission{XID: r.xid.Add(1), Again: t.again}
	t.call.Resend, t.call.Free = &t.tx, t.free
	return t
}

// repeated notes that a call is sent again.
func (r *Caller) repeated(t *pending, call *rpc.Call) {
	r.repeats.Add(1)
	if f := r.cfg.Trace.Retransmit; f != nil {
		f(t.tx.XID, call.Prog, call.Vers, call.Proc, t.tx.Sent)
	}
}

// freed is Call.Free for the connections: they call it once for each transmission.
func (r *Caller) freed(t *pending) {
	t.mu.Lock()
	t.unused = true
	user, over := t.user, t.over
	t.mu.Unlock()
	if !over {
		return // endCall follows
	}
	r.mu.Lock()
	t.place.Leave()
	r.mu.Unlock()
	if user != nil {
		user()
	}
}

// isUnused reports whether no connection uses the memory of the call.
func (t *pending) isUnused() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.unused
}

// lend notes that a connection gets the memory.
func (t *pending) lend() {
	t.mu.Lock()
	t.unused = false
	t.mu.Unlock()
	t.tx.Posted = false
}

// endCall tells the caller that the memory is free, or leaves that to the connection that still uses it.
func (r *Caller) endCall(t *pending) {
	r.mu.Lock()
	t.mu.Lock()
	unused, user := t.unused, t.user
	if t.over = !unused; t.over {
		t.at = time.Now()
		r.left.Push(&t.place, t)
	}
	t.mu.Unlock()
	r.mu.Unlock()
	if !unused {
		return
	}
	if user != nil {
		user()
	}
	t.call, t.user, t.link = rpc.Call{}, nil, nil
	r.mu.Lock()
	if len(r.idle) < maxIdleCalls {
		r.idle = append(r.idle, t)
	}
	r.mu.Unlock()
}
