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

// Flusher executes the Persists of one memory: one commit at a time, which serves all calls that
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
type Flusher struct {
	c    FlusherConfig
	gate gate

	mu      sync.Mutex
	next    *batch // collects ranges; nil if no range waits
	active  bool   // somebody makes commits
	running *batch // the batch being committed
	watch   *time.Timer
	armed   bool
	due     time.Time // of running
	err     error     // the first final error
	failed  chan struct{}
	stuck   bool // Close gave up
	pins    int  // reasons why the memory counts in pinned
	commits uint64
}

// FlusherConfig says what a memory needs of its Flusher.
type FlusherConfig struct {
	// Commit makes ranges durable, whose order it may change. Its error is final.
	Commit func([]region.Range) error
	// Hung returns the final error after a commit has outlived Timeout.
	Hung func() error
	// Timeout limits a commit. If zero, 60 seconds; if negative, there is no limit.
	Timeout time.Duration
	// Quick: Commit cannot hang, and needs no turn.
	Quick bool
}

// NewFlusher returns the Flusher of one memory.
func NewFlusher(c FlusherConfig) *Flusher {
	if c.Timeout == 0 {
		c.Timeout = 60 * time.Second
	}
	return &Flusher{c: c, failed: make(chan struct{})}
}

type batch struct {
	ranges []region.Range
	hung   bool          // overdue: it counts in pins, and is done
	done   chan struct{} // closed when done
	err    error         // valid when done
}

// Persist returns nil when rs are durable, otherwise the final error. The caller has entered.
func (f *Flusher) Persist(rs []region.Range) error {
	if f.c.Quick {
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
func (f *Flusher) inline(rs []region.Range) error {
	if err := f.Err(); err != nil {
		return err
	}
	err := f.c.Commit(slices.Clone(rs)) // commit may reorder them
	f.mu.Lock()
	defer f.mu.Unlock()
	f.commits++
	if err != nil {
		f.fail(err)
	}
	return f.err
}

// join adds rs to the next batch. If lead is true, the caller has to call lead.
func (f *Flusher) join(rs []region.Range) (b *batch, lead bool, err error) {
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
	return f.next, true, nil
}

// collect adds rs to the next batch; f.mu is held.
func (f *Flusher) collect(rs ...region.Range) {
	if f.next == nil {
		f.next = &batch{done: make(chan struct{})}
	}
	f.next.ranges = append(f.next.ranges, rs...)
}

// maxBegun bounds the ranges collected by begin: peers that store while a commit hangs must not cost
// memory without bound.
const maxBegun = 256

// begin is Persist without waiting and without a promise.
func (f *Flusher) begin(r region.Range) {
	if f.c.Quick {
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
func (f *Flusher) lead() {
	b := f.start()
	if b == nil {
		f.gate.leave()
		return
	}
	f.finish(b, f.c.Commit(b.ranges))
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.active = f.next != nil; f.active {
		go f.run()
		return
	}
	f.gate.leave()
}

func (f *Flusher) run() {
	defer f.gate.leave()
	for b := f.start(); b != nil; b = f.start() {
		f.finish(b, f.c.Commit(b.ranges))
	}
}

// start takes the next batch. It returns nil if there is none; then nobody is active.
func (f *Flusher) start() *batch {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.running, f.next = f.next, nil
	if f.active = f.running != nil; !f.active {
		return nil
	}
	f.commits++
	if f.c.Timeout > 0 {
		f.due = time.Now().Add(f.c.Timeout)
		f.arm(f.c.Timeout)
	}
	return f.running
}

// arm sets the watch unless it is set. Choice: the watch is not stopped when a commit ends, but looks
// again and sleeps on, since a timer that is set for every commit can wake a thread every time. f.mu
// is held.
func (f *Flusher) arm(d time.Duration) {
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

// Enter reports whether the caller is let in, as everybody is until Close. If so, the caller has to
// call Leave.
func (f *Flusher) Enter() bool { return f.gate.enter() }

// Leave undoes Enter.
func (f *Flusher) Leave() { f.gate.leave() }

// Close lets nobody in any more, and reports whether all have left before the timeout. If it is zero,
// 10 seconds; if negative, there is no limit. Close may be called again.
func (f *Flusher) Close(timeout time.Duration) bool {
	if timeout == 0 {
		timeout = 10 * time.Second
	}
	if !endsWithin(f.gate.close(), timeout) {
		return false
	}
	f.stop()
	return true
}

// stop ends the watch, which would keep the memory from being collected.
func (f *Flusher) stop() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.watch != nil {
		f.watch.Stop()
	}
}

// look runs when the watch fires.
func (f *Flusher) look() {
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
func (f *Flusher) finish(b *batch, err error) {
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
func (f *Flusher) overdue(b *batch) {
	f.fail(f.c.Hung())
	b.hung = true
	f.pin()
	b.err = f.err
	close(b.done)
}

// fail records the first final error, and gives it to those whose batch has not started; f.mu is
// held.
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

// setStuck records whether the Close of the memory gave up, and keeps Pinned right.
func (f *Flusher) setStuck(stuck bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case stuck && !f.stuck:
		f.pin()
	case !stuck && f.stuck:
		f.unpin()
	}
	f.stuck = stuck
}

// stats returns how many commits were made, and whether a call that outlived its deadline holds the
// memory.
func (f *Flusher) stats() (commits uint64, pinned bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.commits, f.pins > 0
}

// pin and unpin count the reasons why the memory is in Pinned; f.mu is held.
func (f *Flusher) pin() {
	if f.pins++; f.pins == 1 {
		pinned.Add(1)
	}
}

func (f *Flusher) unpin() {
	if f.pins--; f.pins == 0 {
		pinned.Add(-1)
	}
}

// gate counts the callers inside, and lets nobody in once it is shut.
type gate struct {
	mu    sync.Mutex
	users int
	shut  bool
	idle  chan struct{} // closed when shut and nobody is inside
}

// enter reports whether the caller is let in. If so, the caller has to call leave.
func (g *gate) enter() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.shut {
		return false
	}
	g.users++
	return true
}

// hold is enter for work on behalf of a caller who is inside.
func (g *gate) hold() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.users++
}

func (g *gate) leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.users--
	if g.shut && g.users == 0 {
		close(g.idle)
	}
}

// close shuts the gate and returns a channel that is closed when nobody is inside. It
// is idempotent.
func (g *gate) close() <-chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.shut {
		g.shut = true
		g.idle = make(chan struct{})
		if g.users == 0 {
			close(g.idle)
		}
	}
	return g.idle
}

// endsWithin reports whether done is closed before the timeout.
func endsWithin(done <-chan struct{}, timeout time.Duration) bool {
	if timeout < 0 {
		<-done
		return true
	}
	t := time.NewTimer(timeout)
	defer t.Stop()
	select {
	case <-done:
		return true
	case <-t.C:
	}
	select {
	case <-done: // results beat deadlines
		return true
	default:
		return false
	}
}
