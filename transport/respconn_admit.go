package transport

import (
	"sync"
	"time"
)

// admit reserves n octets for a call, which is to be pulled if n is not 0. If there are too few, it
// copies what the call needs out of the upcall and returns false; then continues the call later.
func (rc *respConn) admit(x *exchange, n int, then func(x *exchange)) bool {
	if rc.budget.take(x, n) {
		return true
	}
	x.keepPayload()
	x.then = then
	return rc.budget.takeOrWait(x, n)
}

// dispatch passes a call to the application, unless the results of earlier calls have used up the
// budget. A call that was pulled holds memory, and must not wait for calls that wait for that
// memory.
func (rc *respConn) dispatch(x *exchange, inline bool) {
	if !inline || x.buf != nil || rc.budget.left.Load() >= 0 && rc.client.share.left.Load() >= 0 {
		rc.app.dispatch(x, inline)
		return
	}
	x.own()
	if rc.admit(x, 0, (*exchange).redispatch) {
		rc.app.dispatch(x, true)
	}
}

// redispatch is dispatch for a call that had to wait.
func (x *exchange) redispatch() { x.rc.app.dispatch(x, false) }

// charge takes the octets of a reply's borrowed memory from the budget until they were sent.
func (x *exchange) charge(n int) {
	x.rc.budget.force(x, n)
}

// errPullTimeout ends a connection whose peer does not answer RDMA Reads.
var errPullTimeout = &SlowPeerError{"does not answer RDMA Reads of the chunks that it offered"}

// pullWatch notices when the pulls of a connection make no progress. One timer
// serves all of them.
type pullWatch struct {
	mu      sync.Mutex
	timer   *time.Timer
	active  int
	ended   uint64 // pulls that have completed
	seen    uint64 // ended at the last look
	stopped bool
}

// start notes that a pull begins.
func (w *pullWatch) start(rc *respConn) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.active++
	if w.timer == nil && !w.stopped {
		w.seen = w.ended
		w.timer = time.AfterFunc(rc.cfg.PullTimeout, func() { w.look(rc) })
	}
}

// end notes that a pull has completed.
func (w *pullWatch) end() {
	w.mu.Lock()
	w.active--
	w.ended++
	w.mu.Unlock()
}

// look ends the connection if no pull has completed since the last look.
func (w *pullWatch) look(rc *respConn) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.stopped:
	case w.active == 0:
		w.timer = nil
	case w.ended == w.seen:
		w.timer = nil
		go rc.conn.Abort(errPullTimeout)
	default:
		w.seen = w.ended
		w.timer.Reset(rc.cfg.PullTimeout)
	}
}

// stop ends the watch with the connection.
func (w *pullWatch) stop() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stopped = true
	if w.timer != nil {
		w.timer.Stop()
		w.timer = nil
	}
}
