package pmem

import (
	"slices"
	"sync"
	"time"

	"github.com/stag-rdma/stag/rdmap/region"
)

const (
	persistTime = 60 * time.Second // the limit of one commit
	closeTime   = 10 * time.Second // how long Close waits for running calls
)

// Flusher executes the Persists of one memory: one commit at a time, which serves all calls that
// arrived while the commit before it was running.
//
// There is only one at a time for correctness first, and for speed second: the kernel reports a
// failed write-back to only one fdatasync of a descriptor. With two running, the other one would
// report success for octets that are lost.
//
//	none --Persist--> next --commit--> running --commit--> done
//
// A batch is done once: by commit, by look if its commit hangs, or by fail if it had not started.
// A caller that finds no commit running makes the next one itself, since waking another goroutine
// takes a tenth of the time of the disk. The commits after that one, which serve several callers,
// run in a goroutine of their own.
type Flusher struct {
	c FlusherConfig

	mu      sync.Mutex
	users   int           // callers inside, and the goroutine that makes commits for them
	shut    bool          // nobody is let in
	idle    chan struct{} // closed when shut and nobody is inside
	next    *batch        // collects ranges; nil if no range waits
	active  bool          // somebody makes commits
	running *batch        // the batch being committed; nil also if it is overdue
	watch   *time.Timer
	armed   bool
	due     time.Time // of running
	err     error     // the first final error
	failed  chan struct{}
}

// FlusherConfig says what a memory needs of its Flusher.
type FlusherConfig struct {
	// Commit makes ranges durable, whose order it may change. Its error is final.
	Commit func([]region.Range) error
	// Hung returns the final error after a commit has not ended within 60 seconds.
	Hung func() error
	// Quick: Commit cannot hang, and needs no turn.
	Quick bool
}

// NewFlusher returns the Flusher of one memory.
func NewFlusher(c FlusherConfig) *Flusher { return &Flusher{c: c, failed: make(chan struct{})} }

type batch struct {
	ranges []region.Range
	done   chan struct{} // closed when done
	err    error         // valid when done
}

// Persist returns nil when rs are durable, otherwise the final error. The caller has entered.
func (f *Flusher) Persist(rs []region.Range) error {
	f.mu.Lock()
	if err := f.err; err != nil {
		f.mu.Unlock()
		return err
	}
	if f.c.Quick {
		f.mu.Unlock()
		err := f.c.Commit(slices.Clone(rs)) // it may reorder them
		f.mu.Lock()
		defer f.mu.Unlock()
		if err != nil {
			f.fail(err)
		}
		return f.err
	}
	if f.next == nil {
		f.next = &batch{done: make(chan struct{})}
	}
	b := f.next
	b.ranges = append(b.ranges, rs...)
	if !f.active {
		f.active = true
		f.commit()
		if f.active = f.next != nil; f.active {
			f.users++ // Close waits for it
			go f.run()
		}
	}
	f.mu.Unlock()
	<-b.done
	return b.err
}

// run makes commits as long as there are any.
func (f *Flusher) run() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for f.next != nil {
		f.commit()
	}
	f.active = false
	f.leave()
}

// commit makes the next batch durable. f.mu is held, but not during the commit itself.
func (f *Flusher) commit() {
	b := f.next
	f.running, f.next = b, nil
	// Choice: the watch is not stopped when a commit ends, but looks again and sleeps on, since a timer that is
	// set for every commit can wake a thread every time.
	if f.due = time.Now().Add(persistTime); !f.armed {
		f.armed = true
		if f.watch == nil {
			f.watch = time.AfterFunc(persistTime, f.look)
		} else {
			f.watch.Reset(persistTime)
		}
	}
	f.mu.Unlock()
	err := f.c.Commit(b.ranges)
	f.mu.Lock()
	if err != nil {
		f.fail(err)
	}
	if f.running != nil {
		f.finish()
	}
}

// finish ends the running batch. If the memory failed during the commit, for whatever reason, the batch fails
// even if the commit succeeded: others have been given the final error already. f.mu is held.
func (f *Flusher) finish() {
	b := f.running
	f.running = nil
	b.err = f.err
	close(b.done)
}

// look runs when the watch fires. It gives up on a batch that is overdue, and with it on the memory.
func (f *Flusher) look() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.armed = false
	if f.running == nil {
		return
	}
	if left := time.Until(f.due); left > 0 {
		f.armed = true
		f.watch.Reset(left)
		return
	}
	f.fail(f.c.Hung())
	f.finish()
}

// fail records the first final error, and gives it to those whose batch has not started; f.mu is held.
func (f *Flusher) fail(err error) {
	if f.err != nil {
		return
	}
	f.err = err
	close(f.failed)
	if b := f.next; b != nil {
		f.next = nil
		b.err = err
		close(b.done)
	}
}

// lose is fail for faults seen elsewhere. It returns the first final error.
func (f *Flusher) lose(err error) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fail(err)
	return f.err
}

// Failed returns a channel that is closed at the first final error.
func (f *Flusher) Failed() <-chan struct{} { return f.failed }

// Err returns the first final error, or nil.
func (f *Flusher) Err() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.err
}

// Enter reports whether the caller is let in, as everybody is until Close. If so, the caller has to
// call Leave.
func (f *Flusher) Enter() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.shut {
		return false
	}
	f.users++
	return true
}

// Leave undoes Enter.
func (f *Flusher) Leave() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.leave()
}

func (f *Flusher) leave() {
	if f.users--; f.shut && f.users == 0 {
		close(f.idle)
	}
}

// Close lets nobody in any more, and reports whether all have left within 10 seconds. It may be called again.
func (f *Flusher) Close() bool {
	f.mu.Lock()
	if !f.shut {
		f.shut, f.idle = true, make(chan struct{})
		if f.users == 0 {
			close(f.idle)
		}
	}
	f.mu.Unlock()
	t := time.NewTimer(closeTime)
	defer t.Stop()
	select {
	case <-f.idle:
	case <-t.C:
		select {
		case <-f.idle: // results beat deadlines
		default:
			return false
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.watch != nil {
		f.watch.Stop() // it would keep the memory from being collected
	}
	return true
}
