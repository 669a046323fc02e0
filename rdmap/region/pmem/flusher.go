package pmem

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stag-rdma/stag/rdmap/region"
)

// pinned counts the memories whose Persist or Close gave up on a call that hangs.
var pinned atomic.Int64

// Pinned returns how many memories of the process cannot be closed because a system call hangs,
// for statistics. The number falls when such a call returns.
func Pinned() int { return int(pinned.Load()) }

// flusher executes the Persists of one memory: one commit at a time, which serves all calls that
// arrived while the commit before it was running.
//
// There is only one at a time for correctness first, and for speed second: the kernel reports a
// failed write-back to only one fdatasync of a descriptor. With two running, the other one would
// report success for octets that are lost.
//
//	none --join--> next --start--> running --finish--> done
//
// A batch is done once: by finish, by overdue if its commit hangs, or by fail if it had not started.
// A caller that finds no commit running makes the next one itself, since waking another goroutine
// takes a tenth of the time of the disk. The commits after that one, which serve several callers,
// run in a goroutine of their own.
type flusher struct {
	commit   func([]region.Range) error // its error is final
	pinErr   func() error
	timeout  time.Duration // of a commit; <= 0: no limit
	quick    bool          // commit cannot hang, and needs no turn
	detached bool          // no caller makes a commit itself
	gate     *gate

	mu      sync.Mutex
	next    *batch // collects ranges; nil if no range waits
	active  bool   // somebody makes commits
	running *batch // the batch being committed
	watch   *time.Timer
	armed   bool
	due     time.Time // of running
	err     error     // the first final error
	failed  chan struct{}
	pins    int // reasons why the memory counts in pinned
	commits uint64
}

type batch struct {
	ranges []region.Range
	hung   bool          // overdue: it counts in pins, and is done
	done   chan struct{} // closed when done
	err    error         // valid when done
}

// persist returns nil when rs are durable, otherwise the final error. The caller is inside the gate.
func (f *flusher) persist(rs []region.Range) error {
	if f.quick {
		return f.inline(rs)
	}
	b, lead, err := f.join(rs)
	if err != nil {
		return err
	}
	if lead {
		f.lead()
	}
	<-b.done
	return b.err
}

// inline commits at once.
func (f *flusher) inline(rs []region.Range) error {
	if err := f.state(); err != nil {
		return err
	}
	err := f.commit(slices.Clone(rs)) // commit may reorder them
	f.mu.Lock()
	defer f.mu.Unlock()
	f.commits++
	if err != nil {
		f.fail(err)
	}
	return f.err
}

// join adds rs to the next batch. If lead is true, the caller has to call lead.
func (f *flusher) join(rs []region.Range) (b *batch, lead bool, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.err != nil {
		return nil, false, f.err
	}
	f.collect(rs...)
	if f.active {
		return f.next, false, nil
	}
	f.active = true
	f.gate.hold()
	if f.detached {
		go f.run()
	}
	return f.next, !f.detached, nil
}

// collect adds rs to the next batch; f.mu is held.
func (f *flusher) collect(rs ...region.Range) {
	if f.next == nil {
		f.next = &batch{done: make(chan struct{})}
	}
	f.next.ranges = append(f.next.ranges, rs...)
}

// maxBegun bounds the ranges collected by begin: peers that store while a commit hangs must not cost
// memory without bound.
const maxBegun = 256

// begin is persist without waiting and without a promise.
func (f *flusher) begin(r region.Range) {
	if f.quick {
		_ = f.inline([]region.Range{r}) // the error is final
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.err != nil || f.next != nil && len(f.next.ranges) >= maxBegun {
		return
	}
	f.collect(r)
	if !f.active {
		f.active = true
		f.gate.hold()
		go f.run()
	}
}

// lead makes one commit in the goroutine of the caller, and leaves the rest to run.
func (f *flusher) lead() {
	b := f.start()
	if b == nil {
		f.gate.leave()
		return
	}
	f.finish(b, f.commit(b.ranges))
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.active = f.next != nil; f.active {
		go f.run()
		return
	}
	f.gate.leave()
}

func (f *flusher) run() {
	defer f.gate.leave()
	for b := f.start(); b != nil; b = f.start() {
		f.finish(b, f.commit(b.ranges))
	}
}

// start takes the next batch. It returns nil if there is none; then nobody is active.
func (f *flusher) start() *batch {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.running, f.next = f.next, nil
	if f.active = f.running != nil; !f.active {
		return nil
	}
	f.commits++
	if f.timeout > 0 {
		f.due = time.Now().Add(f.timeout)
		f.arm(f.timeout)
	}
	return f.running
}

// arm sets the watch unless it is set. Choice: the watch is not stopped when a commit ends, but looks
// again and sleeps on, since a timer that is set for every commit can wake a thread every time. f.mu
// is held.
func (f *flusher) arm(d time.Duration) {
	switch {
	case f.armed:
		return
	case f.watch == nil:
		f.watch = time.AfterFunc(d, f.look)
	default:
		f.watch.Reset(d)
	}
	f.armed = true
}

// stop ends the watch, which would keep the memory from being collected.
func (f *flusher) stop() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.watch != nil {
		f.watch.Stop()
	}
}

// look runs when the watch fires.
func (f *flusher) look() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.armed = false
	b := f.running
	if b == nil {
		return
	}
	if left := time.Until(f.due); left > 0 {
		f.arm(left)
		return
	}
	f.overdue(b)
}

// finish ends a batch. If the memory failed during the commit, for whatever reason, the batch fails
// even if the commit succeeded: others have been given the final error already.
func (f *flusher) finish(b *batch, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.running = nil
	if err != nil {
		f.fail(err)
	}
	if b.hung {
		f.unpin()
		return
	}
	b.err = f.err
	close(b.done)
}

// overdue gives up on the running batch, and with it on the memory; f.mu is held.
func (f *flusher) overdue(b *batch) {
	f.fail(f.pinErr())
	b.hung = true
	f.pin()
	b.err = f.err
	close(b.done)
}

// fail records the first final error, and gives it to those whose batch has not started; f.mu is
// held.
func (f *flusher) fail(err error) {
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
func (f *flusher) lose(err error) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fail(err)
	return f.err
}

func (f *flusher) state() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.err
}

// pin and unpin count the reasons why the memory is in Pinned; f.mu is held.
func (f *flusher) pin() {
	if f.pins++; f.pins == 1 {
		pinned.Add(1)
	}
}

func (f *flusher) unpin() {
	if f.pins--; f.pins == 0 {
		pinned.Add(-1)
	}
}
