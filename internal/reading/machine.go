package reading

import (
	"sync/atomic"
)

// State says who reads a link. The end of the connection takes over from any of the first six, see Seize.
type State uint32

// The states of a Reader.
const (
	// Free: nobody reads. Between two calls of an active connection that is so for a moment, and no watcher is told of
	// it, since the next caller will read. Left by Take, or, if no call has begun for a tick or nobody waits, to
	// Watched.
	Free State = iota
	// Watched: nobody reads, and the link says when there is input. Left by Take; by Call and Serve to Free, since
	// a watcher would then only be woken in vain; by Park if the link cannot be watched.
	Watched
	// Parked: a goroutine waits in a read, because the link cannot be watched. It is interrupted when anybody else
	// wants the role, and then leaves by Release.
	Parked
	// Caller: a goroutine reads that waits for an answer, or the one that took over from it when an upcall stayed.
	// Left by Release.
	Caller
	// Server: the goroutine in Serve reads, or the one that took over from it. Left by Release, at the end only.
	Server
	// Watcher: a goroutine reads what the link has noticed, or what had to wait for memory. Left by Release.
	Watcher
	// Drainer: the end of the connection has the role, and nobody gets it any more. Whoever waits is not told before
	// the last upcall has begun. Left by End.
	Drainer
	// Ended: nobody reads any more, and whoever waits may know. It is not left.
	Ended
)

// Action is what is to be done after a change, as a set.
type Action uint8

// The actions.
const (
	DoWatch     Action = 1 << iota // watch the link; if it cannot be watched: Park
	DoUnwatch                      // the reverse
	DoInterrupt                    // make the goroutine that reads return
	DoAgain                        // read, in a goroutine of its own, if the role is free then
	DoAddTick                      // have Tick called from now on
)

// Reader is the reading role of a connection, which one goroutine at a time has, and how input is noticed while nobody
// has it. Its methods only decide. The caller holds the lock that guards it, and does what they return before it lets go.
type Reader struct {
	state   atomic.Uint32 // a State; written with the lock
	serving bool          // Serve was called: nobody watches any more
	missed  bool          // input was noticed while somebody had the role
	// active: there were calls lately. Callers then read for themselves, and nobody watches.
	active atomic.Bool
	// recent: another call has begun since the last tick, so that one that begins need not do anything.
	recent atomic.Bool
}

// State returns the state. It needs no lock.
func (r *Reader) State() State { return State(r.state.Load()) }

// Active reports whether there were calls lately. It needs no lock.
func (r *Reader) Active() bool { return r.active.Load() }

// Recent reports whether Call need not be called. It needs no lock.
func (r *Reader) Recent() bool { return r.recent.Load() }

func (r *Reader) enter(s State) { r.state.Store(uint32(s)) }

// Take gives the role to a goroutine, as one of Caller, Server, Watcher and Drainer, if nobody has it.
func (r *Reader) Take(as State) bool {
	if s := r.State(); s != Free && s != Watched {
		return false
	}
	r.enter(as)
	return true
}

// Release gives the role back. rest is false if somebody waits, or the connection is not to be read: then the link is
// not watched.
func (r *Reader) Release(rest bool) (do Action) {
	r.enter(Free)
	if r.missed {
		r.missed = false
		do = DoAgain
	}
	if rest && !r.active.Load() && !r.serving {
		r.enter(Watched)
		do |= DoWatch
	}
	return do
}

// Park says that a link cannot be watched: the caller starts a goroutine that reads.
func (r *Reader) Park() { r.enter(Parked) }

// Wanted reports whether that goroutine has to release the role. queued says that somebody waits.
func (r *Reader) Wanted(queued bool) bool { return queued || r.serving || r.active.Load() }

// Notice takes the role as Watcher, because there is input. If somebody has it, the role will be taken again.
func (r *Reader) Notice() bool {
	if !r.Take(Watcher) {
		r.missed = true
		return false
	}
	return true
}

// Call says that a call begins, or that somebody waits, for whom a Reader of a connection that is not active would leave
// it without a watcher. An active connection stays so until Tick finds that no call has begun since the last tick.
func (r *Reader) Call() Action {
	if r.active.Load() || r.serving || r.State() == Ended {
		return 0
	}
	r.active.Store(true)
	return r.unwatch() | DoAddTick
}

// Called makes Recent true until the next tick.
func (r *Reader) Called() { r.recent.Store(true) }

// Serve says that from now on one goroutine reads, to which Take will give the role. It reports false if that was so
// before.
func (r *Reader) Serve() (do Action, ok bool) {
	if r.serving {
		return 0, false
	}
	r.serving = true
	r.recent.Store(true)
	return r.unwatch(), true
}

func (r *Reader) unwatch() Action {
	switch r.State() {
	case Watched:
		r.enter(Free)
	case Parked:
		return DoUnwatch | DoInterrupt
	default:
	}
	return DoUnwatch
}

// TickRecent is the part of Tick that needs no lock. It reports whether that was all.
func (r *Reader) TickRecent() bool { return r.recent.Swap(false) }

// Tick takes one tick in which no call has begun. queued says that somebody waits. It reports whether there are more
// ticks to be taken.
func (r *Reader) Tick(queued bool) (do Action, more bool) {
	switch s := r.State(); {
	case s == Ended || r.serving:
		r.active.Store(false)
		r.recent.Store(true)
		return 0, false
	case s != Free || queued:
		return 0, true
	}
	r.active.Store(false)
	r.recent.Store(false)
	r.enter(Watched)
	return DoWatch, false
}

// Seize takes the role for the end of the connection, from a running upcall if upcall is true, otherwise from nobody.
func (r *Reader) Seize(upcall bool) bool {
	if upcall {
		r.enter(Drainer)
		return true
	}
	return r.Take(Drainer)
}

// End says that the connection is over.
func (r *Reader) End() { r.enter(Ended) }
