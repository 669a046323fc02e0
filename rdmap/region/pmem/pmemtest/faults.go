package pmemtest

import (
	"sync"

	"github.com/stag-rdma/stag/rdmap/region/pmem"
)

// Faults makes operations fail or hang, and counts them. One Faults may serve several
// memories. The methods may be called from several goroutines at once.
type Faults struct {
	mu     sync.Mutex
	counts map[pmem.Op]int
	plans  map[pmem.Op]*plan
}

// plan says what happens to the next operations of one kind.
type plan struct {
	skip    int // operations that pass first
	err     error
	forever bool
	entered chan struct{} // of a hang; the operation closes it
	release chan struct{}
}

// NewFaults returns a Faults that only counts.
func NewFaults() *Faults {
	return &Faults{counts: make(map[pmem.Op]int), plans: make(map[pmem.Op]*plan)}
}

// Hook returns what pmem.Open and pmemtest.SimOptions take; nil if f is nil.
func (f *Faults) Hook() pmem.Hook {
	if f == nil {
		return nil
	}
	return func(op pmem.Op, _, _ int) error { return f.Before(op) }
}

// Before counts an operation, and fails or hangs as planned. A Target whose memory does not come from
// package pmem calls it itself.
func (f *Faults) Before(op pmem.Op) error {
	p := f.next(op)
	if p == nil {
		return nil
	}
	if p.release != nil {
		close(p.entered)
		<-p.release
	}
	return p.err
}

// next counts, and returns the plan if it is due.
func (f *Faults) next(op pmem.Op) *plan {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.counts[op]++
	p := f.plans[op]
	switch {
	case p == nil:
	case p.skip > 0:
		p.skip--
		return nil
	case !p.forever:
		delete(f.plans, op)
	}
	return p
}

func (f *Faults) plan(op pmem.Op, p *plan) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.plans[op] = p
}

// Fail makes every operation op from now on fail with err instead of being executed, as on a full
// disk or a dead one.
func (f *Faults) Fail(op pmem.Op, err error) { f.plan(op, &plan{err: err, forever: true}) }

// FailOnce makes the next operation op fail with err. Those after it succeed, as fdatasync does on
// Linux although octets are lost.
func (f *Faults) FailOnce(op pmem.Op, err error) { f.FailAfter(op, 0, err) }

// FailAfter is FailOnce after n operations that succeed.
func (f *Faults) FailAfter(op pmem.Op, n int, err error) { f.plan(op, &plan{skip: n, err: err}) }

// Hang makes the next operation op hang until release is called, and then go on. entered is closed
// when it hangs. release must be called exactly once.
func (f *Faults) Hang(op pmem.Op) (entered <-chan struct{}, release func()) {
	p := &plan{entered: make(chan struct{}), release: make(chan struct{})}
	f.plan(op, p)
	return p.entered, func() { close(p.release) }
}

// Clear cancels what is planned for op.
func (f *Faults) Clear(op pmem.Op) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.plans, op)
}

// Count returns how often op was called, including failures.
func (f *Faults) Count(op pmem.Op) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.counts[op]
}
