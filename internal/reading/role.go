package reading

import (
	"errors"
	"sync"

	"github.com/stag-rdma/stag/internal/list"
)

// Owner is a connection as its Role sees it. All but Ended, Err and Abort belong to the holder of the role.
type Owner interface {
	Source
	// Before returns why nothing can be read now, or nil. It may wait for what stands against it, if wait is true.
	Before(wait bool) error
	// After handles what a read has brought, n octets or an error, which may be ErrInterrupted. Its error is that one,
	// ErrLostRole, or why the connection has failed.
	After(n int, err error) (int, error)
	// Blocked reports whether input is not to be noticed although nobody reads.
	Blocked() bool
	// Ended reports whether the connection has failed, and Err returns why.
	Ended() bool
	Err() error
	// Abort ends the connection because a context has panicked.
	Abort(stack []byte)
}

// Errors of a read that are not those of a connection.
var (
	// ErrInterrupted: a read was told to return. It is a hint: the reader checks what has changed, and may read again.
	ErrInterrupted = errors.New("read interrupted")
	// ErrLostRole: the reading role was taken over while an upcall ran. The former holder no longer touches the
	// receiving half.
	ErrLostRole = errors.New("reading role taken over")
)

// Role is the reading role of a connection and those who wait for it. Whoever leaves, for whatever reason, and finds the
// role free and the queue not empty, wakes the first waiter. A wake is a hint: whoever is woken checks again.
type Role struct {
	// Mu guards the Reader. It is taken before the locks of a connection.
	Mu sync.Mutex
	Reader
	// Hint wakes a holder that waits for something else than input; nil: it never does. Guarded by Mu.
	Hint chan struct{}

	owner   Owner
	link    Link
	tick    *Ticker
	ready   func()            // Readable, made once: a method value for each Watch would be an allocation each
	waiters list.List[Waiter] // in order of arrival
	woken   chain
	freed   chan struct{} // made by whoever waits for the role to be released; closed then
}

// Init makes the role ready. tick is for links that are watched together; others get a ticker each.
func (r *Role) Init(owner Owner, link Link, tick *Ticker) {
	r.owner, r.link, r.tick = owner, link, tick
	r.ready = r.Readable
}

// leave is called by whoever leaves, with Mu held, and unlocks it.
func (r *Role) leave() {
	if w := r.First(); w != nil && r.State() == Free {
		w.wake()
	}
	r.Mu.Unlock()
}

// Finish makes the role Ended, and everybody who waits check again.
func (r *Role) Finish() {
	r.Mu.Lock()
	defer r.Mu.Unlock()
	r.End()
	for w := range r.waiters.All() {
		w.wake()
	}
}

// First returns who waits longest for the role, nil if nobody does. The caller holds Mu.
func (r *Role) First() *Waiter { return r.waiters.First() }

// enqueue makes w wait, behind the others unless it waits already. The caller holds Mu.
func (r *Role) enqueue(w *Waiter) {
	if !w.place.In(&r.waiters) {
		r.waiters.Push(&w.place, w)
	}
}

// Act carries out what a change of the Reader asks for, with Mu held.
func (r *Role) Act(a Action) {
	if a&DoUnwatch != 0 {
		r.link.Unwatch()
	}
	if a&DoInterrupt != 0 {
		r.Interrupt()
	}
	if a&DoAddTick != 0 {
		r.tick.Add((*activity)(r))
	}
	if a&DoAgain != 0 {
		go r.Readable() // with Mu held nobody may read here
	}
	if a&DoWatch != 0 && !r.link.Watch(r.ready) {
		// There is no way to be told of input but to wait for it.
		r.Park()
		go r.parked()
	}
}

// release gives the role back, with Mu held. rest: if nobody waits, input is to be noticed.
func (r *Role) release(rest bool) {
	r.Resume() // an interrupt was meant for the holder that leaves
	if r.freed != nil {
		close(r.freed)
		r.freed = nil
	}
	r.Act(r.Release(rest && r.waiters.Len() == 0 && !r.owner.Ended()))
}

// Free is release for a goroutine that has waited.
func (r *Role) Free() {
	r.Mu.Lock()
	r.release(false)
	r.leave()
}

// Freed returns a channel that is closed when the role is given back next. The caller holds Mu.
func (r *Role) Freed() <-chan struct{} {
	if r.freed == nil {
		r.freed = make(chan struct{})
	}
	return r.freed
}

// Begin is called when a call begins, unless Recent is true: nearly always it is, and one load is all that most calls pay.
// On an active connection callers read for themselves, until a tick finds that no call has begun since the last tick.
func (r *Role) Begin() {
	r.Mu.Lock()
	defer r.Mu.Unlock()
	r.Act(r.Call())
	r.Called()
}

// activity is a Role as its ticker sees it while calls begin.
type activity Role

// Tick implements Ticked.
func (a *activity) Tick() bool {
	r := (*Role)(a)
	if r.TickRecent() {
		return true // without the lock, which a busy connection has enough use for
	}
	r.Mu.Lock()
	defer r.Mu.Unlock()
	do, more := r.Reader.Tick(r.waiters.Len() > 0)
	r.Act(do)
	return more
}

// Readable is called, in a goroutine of its own, when the watched connection has input. It reads
// everything that has arrived, and makes the connection watched again.
func (r *Role) Readable() {
	r.Mu.Lock()
	mine := r.Notice()
	r.Mu.Unlock()
	if !mine {
		return // Notice has remembered it: whoever has the role may have looked before this input came
	}
	for {
		n, err := r.ReadOnce(false)
		if errors.Is(err, ErrLostRole) {
			return
		}
		if err != nil && !errors.Is(err, ErrInterrupted) {
			break // the connection has failed
		}
		if n == 0 {
			break // all has been read; the watcher is armed for what comes after it
		}
	}
	r.Rearm()
}

// Rearm gives the role back when a Watcher is done.
func (r *Role) Rearm() {
	blocked := r.owner.Blocked() // whoever ends that will see to it
	r.Mu.Lock()
	r.release(!blocked)
	r.leave()
}

// parked is the watcher of a link that has no other. It reads until somebody wants the role.
func (r *Role) parked() {
	for {
		_, err := r.ReadOnce(true)
		if err == nil {
			continue
		}
		if errors.Is(err, ErrLostRole) {
			return
		}
		r.Mu.Lock()
		if !errors.Is(err, ErrInterrupted) || r.owner.Ended() || r.Wanted(r.waiters.Len() > 0) {
			break
		}
		r.Resume()
		r.Mu.Unlock()
	}
	r.release(false)
	r.leave()
}

// interruptWaiter makes a goroutine return that waits for input in Wait.
func (r *Role) interruptWaiter() {
	r.Mu.Lock()
	defer r.Mu.Unlock()
	if r.State() == Caller { // others do not wait for a Waiter
		r.Interrupt()
	}
}

// Interrupt makes a reader that waits return, with Mu held. At the end of a connection, whoever drains it owns the read
// deadline.
func (r *Role) Interrupt() {
	if r.State() >= Drainer {
		return
	}
	r.link.Interrupt()
	if r.Hint != nil {
		hint(r.Hint)
	}
}

// Resume makes reads wait again, with Mu held. After a failure they must not wait.
func (r *Role) Resume() {
	if !r.owner.Ended() {
		r.link.Resume()
	}
}

// resumed is Resume without the lock.
func (r *Role) resumed() {
	r.Mu.Lock()
	defer r.Mu.Unlock()
	r.Resume()
}

// BeginServing gives the role to the calling goroutine for as long as the connection lives. It reports false if another
// has it so. If the connection has ended, it returns without the role.
func (r *Role) BeginServing() bool {
	r.Mu.Lock()
	defer r.Mu.Unlock()
	do, ok := r.Serve()
	if !ok {
		return false
	}
	r.Act(do)
	var w Waiter
	w.Reset()
	for !r.Take(Server) {
		if r.owner.Ended() {
			return true
		}
		r.enqueue(&w)
		r.Mu.Unlock()
		<-w.ch
		r.Mu.Lock()
		w.place.Leave()
	}
	r.link.Forget() // one goroutine reads until the end: nothing is to be noticed any more
	return true
}

// GoOnServing reads until the connection fails or the role is lost.
func (r *Role) GoOnServing() {
	for r.State() == Server {
		_, err := r.ReadOnce(true)
		switch {
		case err == nil:
			continue
		case errors.Is(err, ErrLostRole):
			return
		case errors.Is(err, ErrInterrupted) && !r.owner.Ended():
			r.resumed()
			continue
		}
		r.Free()
		return
	}
}

// ReadOnce reads once and has the Owner handle that. It is for the holder of the role. n is the number of octets read. The
// error is that of the Owner's Before or After.
func (r *Role) ReadOnce(wait bool) (n int, err error) {
	if err := r.owner.Before(wait); err != nil {
		return 0, err
	}
	return r.owner.After(r.link.Read(r.owner, wait))
}
