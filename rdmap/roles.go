package rdmap

import (
	"sync/atomic"
)

// readerState says who reads a link. The end of the connection takes over from any of the first six, see Seize.
type readerState uint32

// The states of a reader.
const (
	// readFree: nobody reads. Between two calls of an active connection that is so for a moment, and no watcher is told of
	// it, since the next caller will read. Left by Take, or, if no call has begun for a tick or nobody waits, to
	// readWatched.
	readFree readerState = iota
	// readWatched: nobody reads, and the link says when there is input. Left by Take; by Call and Serve to readFree, since
	// a watcher would then only be woken in vain; by Park if the link cannot be watched.
	readWatched
	// readParked: a goroutine waits in a read, because the link cannot be watched. It is interrupted when anybody else
	// wants the role, and then leaves by Release.
	readParked
	// readCaller: a goroutine reads that waits for an answer, or the one that took over from it when an upcall stayed.
	// Left by Release.
	readCaller
	// readServer: the goroutine in Serve reads, or the one that took over from it. Left by Release, at the end only.
	readServer
	// readWatcher: a goroutine reads what the link has noticed, or what had to wait for memory. Left by Release.
	readWatcher
	// readDrainer: the end of the connection has the role, and nobody gets it any more. Whoever waits is not told before
	// the last upcall has begun. Left by End.
	readDrainer
	// readEnded: nobody reads any more, and whoever waits may know. It is not left.
	readEnded
)

// readerAction is what is to be done after a change, as a set.
type readerAction uint8

// The actions.
const (
	doWatch     readerAction = 1 << iota // watch the link; if it cannot be watched: Park
	doUnwatch                            // the reverse
	doInterrupt                          // make the goroutine that reads return
	doAgain                              // read, in a goroutine of its own, if the role is free then
	doAddTick                            // have Tick called from now on
)

// reader is the reading role of a connection, which one goroutine at a time has, and how input is noticed while nobody
// has it. Its methods only decide. The caller holds the lock that guards it, and does what they return before it lets go.
type reader struct {
	state   atomic.Uint32 // a readerState; written with the lock
	serving bool          // Serve was called: nobody watches any more
	missed  bool          // input was noticed while somebody had the role
	// active: there were calls lately. Callers then read for themselves, and nobody watches.
	active atomic.Bool
	// recent: another call has begun since the last tick, so that one that begins need not do anything.
	recent atomic.Bool
}

// State returns the state. It needs no lock.
func (r *reader) State() readerState { return readerState(r.state.Load()) }

// Active reports whether there were calls lately. It needs no lock.
func (r *reader) Active() bool { return r.active.Load() }

// Recent reports whether Call need not be called. It needs no lock.
func (r *reader) Recent() bool { return r.recent.Load() }

func (r *reader) enter(s readerState) { r.state.Store(uint32(s)) }

// Take gives the role to a goroutine, as one of readCaller, readServer, readWatcher and readDrainer, if nobody has it.
func (r *reader) Take(as readerState) bool {
	if s := r.State(); s != readFree && s != readWatched {
		return false
	}
	r.enter(as)
	return true
}

// Release gives the role back. rest is false if somebody waits, or the connection is not to be read: then the link is
// not watched.
func (r *reader) Release(rest bool) (do readerAction) {
	r.enter(readFree)
	if r.missed {
		r.missed = false
		do = doAgain
	}
	if rest && !r.active.Load() && !r.serving {
		r.enter(readWatched)
		do |= doWatch
	}
	return do
}

// Park says that a link cannot be watched: the caller starts a goroutine that reads.
func (r *reader) Park() { r.enter(readParked) }

// Wanted reports whether that goroutine has to release the role. queued says that somebody waits.
func (r *reader) Wanted(queued bool) bool { return queued || r.serving || r.active.Load() }

// Notice takes the role as readWatcher, because there is input. If somebody has it, the role will be taken again.
func (r *reader) Notice() bool {
	if !r.Take(readWatcher) {
		r.missed = true
		return false
	}
	return true
}

// Call says that a call begins, or that somebody waits, for whom a reader of a connection that is not active would leave
// it without a watcher. An active connection stays so until Tick finds that no call has begun since the last tick.
func (r *reader) Call() readerAction {
	if r.active.Load() || r.serving || r.State() == readEnded {
		return 0
	}
	r.active.Store(true)
	return r.unwatch() | doAddTick
}

// Called makes Recent true until the next tick.
func (r *reader) Called() { r.recent.Store(true) }

// Serve says that from now on one goroutine reads, to which Take will give the role. It reports false if that was so
// before.
func (r *reader) Serve() (do readerAction, ok bool) {
	if r.serving {
		return 0, false
	}
	r.serving = true
	r.recent.Store(true)
	return r.unwatch(), true
}

func (r *reader) unwatch() readerAction {
	switch r.State() {
	case readWatched:
		r.enter(readFree)
	case readParked:
		return doUnwatch | doInterrupt
	default:
	}
	return doUnwatch
}

// TickRecent is the part of Tick that needs no lock. It reports whether that was all.
func (r *reader) TickRecent() bool { return r.recent.Swap(false) }

// Tick takes one tick in which no call has begun. queued says that somebody waits. It reports whether there are more
// ticks to be taken.
func (r *reader) Tick(queued bool) (do readerAction, more bool) {
	switch s := r.State(); {
	case s == readEnded || r.serving:
		r.active.Store(false)
		r.recent.Store(true)
		return 0, false
	case s != readFree || queued:
		return 0, true
	}
	r.active.Store(false)
	r.recent.Store(false)
	r.enter(readWatched)
	return doWatch, false
}

// Seize takes the role for the end of the connection, from a running upcall if upcall is true, otherwise from nobody.
func (r *reader) Seize(upcall bool) bool {
	if upcall {
		r.enter(readDrainer)
		return true
	}
	return r.Take(readDrainer)
}

// End says that the connection is over.
func (r *reader) End() { r.enter(readEnded) }

// writerState says who writes to a link.
type writerState uint8

// The states of a writer.
const (
	// writeIdle: nobody. Left by Begin: whoever queues something, and finds it so, writes it.
	writeIdle writerState = iota
	// writeBusy: a poster, a reader or an executor writes, each of which has something else to do. Left by End when nothing
	// is queued, by Block when it would have to wait or has written enough for others.
	writeBusy
	// writeBlocked: a goroutine of its own writes, which may wait for room in the socket. Left by End.
	writeBlocked
)

// writer is the writing role of a connection, which one goroutine at a time has: it writes what everybody has queued.
// The caller holds the lock that guards the queue.
type writer struct {
	state  writerState
	corked bool          // input is being handled: its reader writes what that has queued, all at once
	rest   chan struct{} // made by whoever waits for the writer to rest; closed then
}

// Idle reports whether nobody writes.
func (w *writer) Idle() bool { return w.state == writeIdle }

// Rests reports whether nobody writes or is about to.
func (w *writer) Rests() bool { return w.state == writeIdle && !w.corked }

// Begin makes the caller the writer. Nobody may be.
func (w *writer) Begin() { w.state = writeBusy }

// Block says that the caller starts a goroutine that goes on.
func (w *writer) Block() { w.state = writeBlocked }

// End says that there is nothing left to write.
func (w *writer) End() {
	w.state = writeIdle
	w.Rested()
}

// Cork makes posters leave what they queue to the caller, who handles input.
func (w *writer) Cork() { w.corked = true }

// Uncork ends that. The caller then writes; if there is nothing to write, it calls Rested.
func (w *writer) Uncork() { w.corked = false }

// Corked reports whether input is being handled.
func (w *writer) Corked() bool { return w.corked }

// Rest returns a channel that is closed when the writer rests next. It is nil if it rests now.
func (w *writer) Rest() <-chan struct{} {
	if w.Rests() {
		return nil
	}
	if w.rest == nil {
		w.rest = make(chan struct{})
	}
	return w.rest
}

// Rested tells those who wait for it if the writer rests.
func (w *writer) Rested() {
	if w.rest != nil && w.Rests() {
		close(w.rest)
		w.rest = nil
	}
}
