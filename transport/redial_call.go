package transport

import (
	"sync"
	"time"
)

// transmission is what a call keeps when it is sent again on another connection.
type transmission struct {
	xid    uint32
	posted bool // on the current connection: some of it may have been sent
	sent   int  // number of times it was posted
	r      *Redialer
}

// post notes that the call is being sent. A call without a Redialer has no tx.
func (tx *transmission) post(call *Call) {
	if tx == nil {
		return
	}
	tx.posted = true
	tx.sent++
	if tx.sent == 1 || tx.r == nil {
		return
	}
	tx.r.repeats.Add(1)
	if f := tx.r.cfg.Trace.Retransmit; f != nil {
		f(tx.xid, call.Prog, call.Vers, call.Proc, tx.sent)
	}
}

// redialCall is one call of a Redialer from Do to its end; it is reused.
type redialCall struct {
	call Call // as passed to the connections
	tx   transmission
	at   time.Time // of the last transmission
	free func()    // freed, as a value

	place links[redialCall] // in Redialer.out

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
func (t *redialCall) outcome(err error, lost bool) error {
	if err == nil || !lost || t.call.Proc == nullProc {
		return err
	}
	return &OutcomeError{
		XID: t.tx.xid, Prog: t.call.Prog, Vers: t.call.Vers, Proc: t.call.Proc,
		Sent: t.tx.sent, Repeatable: t.call.Repeatable, Err: err,
	}
}

// newCall returns a call with a new XID.
func (r *Redialer) newCall(call *Call) *redialCall {
	r.mu.Lock()
	var t *redialCall
	if n := len(r.idle); n > 0 {
		t = r.idle[n-1]
		r.idle = r.idle[:n-1]
	}
	r.mu.Unlock()
	if t == nil {
		t = new(redialCall)
		t.free = t.freed
	}
	t.call, t.user, t.unused = *call, call.Free, true
	t.tx = transmission{xid: r.xid.Add(1), r: r}
	t.call.tx, t.call.Free = &t.tx, t.free
	return t
}

// freed is Call.Free for the connections: they call it once for each transmission.
func (t *redialCall) freed() {
	t.mu.Lock()
	t.unused = true
	user := t.user
	over := t.over
	t.mu.Unlock()
	if over && user != nil {
		user() // the call was cancelled; its Redialer has forgotten it
	}
}

// isUnused reports whether no connection uses the memory of the call.
func (t *redialCall) isUnused() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.unused
}

// lend notes that a connection gets the memory.
func (t *redialCall) lend() {
	t.mu.Lock()
	t.unused = false
	t.mu.Unlock()
	t.tx.posted = false
}

// endCall tells the caller that the memory is free, or leaves that to the connection that still uses it.
func (r *Redialer) endCall(t *redialCall) {
	t.mu.Lock()
	unused, user := t.unused, t.user
	t.over = !unused
	t.mu.Unlock()
	if !unused {
		return
	}
	if user != nil {
		user()
	}
	t.call, t.user = Call{}, nil
	r.mu.Lock()
	if len(r.idle) < maxIdleCalls {
		r.idle = append(r.idle, t)
	}
	r.mu.Unlock()
}

// links returns the place of t in Redialer.out.
func (t *redialCall) links() *links[redialCall] { return &t.place }
