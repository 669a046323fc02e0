package commitlog

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stag-rdma/stag/rdmap"
	"github.com/stag-rdma/stag/rdmap/region"
)

// ErrClosed: the Log or the Producer is closed.
var ErrClosed = errors.New("commitlog: closed")

// Log is the consumer's side of a log. It owns the memory.
type Log struct {
	mem   *memory
	info  Info
	moved bell          // the tail has moved
	over  chan struct{} // closed when err is set
	quiet quiet

	// order is held from a decision of the machine until its operations are done. Lock it
	// before mu.
	order sync.Mutex

	// reads is held by Read, and taken before room is given back: nobody overwrites what Read copies.
	// Lock it before mu.
	reads sync.Mutex
	view  *view

	mu   sync.Mutex // taken before state
	cons *consumer

	state sync.Mutex
	err   error       // final
	told  func(error) // OnError
	regs  [3]region.Region
	conn  *rdmap.Conn // of the session; nil: none, or a local one
	loc   *local      // the local session; nil: none
}

// Open recovers the log in mem: it finds the tail and makes it durable. It borrows mem until
// Close; nobody else may touch mem meanwhile. It takes the content of mem as durable, as it is
// after pmem.Open. A log with a poisoned record is opened too; see Info.
//
// Errors: *FormatError if mem does not hold a log of version 2, and those of the memory.
func Open(mem region.Memory) (*Log, error) {
	m, err := newMemory(mem)
	if err != nil {
		return nil, err
	}
	st, err := recoverLog(m, m.Size(), nil)
	if err != nil {
		return nil, err
	}
	l := &Log{mem: m, info: infoOf(st), over: make(chan struct{}), view: newView(m)}
	l.cons = newConsumer(m, st)
	if err := m.do(l.cons.Start()); err != nil {
		return nil, err
	}
	l.quiet.turn = make(chan struct{}, 1)
	l.quiet.timer = time.AfterFunc(time.Hour, l.settle)
	l.quiet.timer.Stop()
	m.log = l
	return l, nil
}

// Info returns what Open found.
func (l *Log) Info() Info { return l.info }

// Owner returns Options.Owner of Create.
func (l *Log) Owner() [32]byte {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.cons.hdr.Owner
}

// Instance returns to whom the last session belongs: what Prepare was told, zeros if the session was
// begun in another way, or if there was none. It survives the process. While Prepare runs, or after it
// has failed with an error of the memory, the medium may still name the instance before.
func (l *Log) Instance() Instance {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.cons.hdr.Instance
}

// Next returns the next record, in order, as soon as there is one. It waits until ctx ends.
// Errors: that of ctx; *PoisonError, which every later call returns too; ErrClosed; and the first
// error of the memory, which is final.
func (l *Log) Next(ctx context.Context) (rec *Record, err error) {
	werr := l.wait(ctx, func() bool {
		rec, err = l.TryNext()
		return rec != nil || err != nil
	})
	return rec, cmp.Or(err, werr)
}

// wait calls done until it returns true, whenever the tail has moved.
func (l *Log) wait(ctx context.Context, done func() bool) error {
	for !done() {
		moved := l.moved.wait()
		if done() { // it may have moved before
			return nil
		}
		select {
		case <-moved:
		case <-l.over:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// TryNext returns the next record, or nil if there is none yet. A consumer that polls, rather
// than waiting in Next, does not slow the producer down: waking it up would take a processor away
// from the answer. The errors are those of Next.
func (l *Log) TryNext() (*Record, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.failed(); err != nil {
		return nil, err
	}
	return l.cons.Next(l.Tail())
}

// Tail returns the position after the last record that TryNext will return, if no more arrive.
// All acknowledged records lie before it. A dishonest producer may have set it to any value. Tail
// costs one atomic load.
func (l *Log) Tail() uint64 {
	if l.info.Mode == Strict && !l.mem.volatile {
		return l.mem.flushed.Load()
	}
	return l.mem.tail.Load()
}

// Release tells l that the effects of the records up to number seq are durable, so that Next need not
// return them again. It makes this fact durable, and then tells the producer that the room is free.
// Each call costs a flush, so it is cheaper to release several records at once.
// Releasing a record again does nothing. Errors: ErrNotHandedOut, ErrClosed, and the first error
// of the memory, which is final.
func (l *Log) Release(seq uint64) error {
	l.order.Lock()
	defer l.order.Unlock()
	l.mu.Lock()
	err := l.failed()
	var steps []step
	if err == nil {
		steps, err = l.cons.Release(seq)
	}
	l.mu.Unlock()
	if err != nil || len(steps) == 0 {
		return err
	}
	for i := range steps {
		publishes := steps[i].Off == publishedOff
		if publishes {
			l.reads.Lock() // those that began before have copied what they read, and others begin at the head
		}
		err := l.mem.step(&steps[i])
		if publishes {
			l.reads.Unlock()
		}
		if err != nil {
			return err
		}
	}
	l.publish(l.mem.head.Load())
	return nil
}

// OnError calls f with the first error of the memory, even if that was before. f must not call l.
func (l *Log) OnError(f func(error)) {
	l.state.Lock()
	defer l.state.Unlock()
	if l.told = f; l.err != nil && !errors.Is(l.err, ErrClosed) {
		f(l.err)
	}
}

func (l *Log) failed() error {
	l.state.Lock()
	defer l.state.Unlock()
	return l.err
}

// fail ends the log with the first error of its memory. It may run in a goroutine of the engine
// that is using the memory.
func (l *Log) fail(err error) {
	l.state.Lock()
	defer l.state.Unlock()
	first := l.err == nil
	if first {
		l.err = err
		close(l.over)
	}
	if errors.Is(err, ErrClosed) {
		err = nil
	} else if first && l.told != nil {
		l.told(err) // before the appends of the session end with it
	}
	l.revoke(err)
}

// Close ends the session and waits until nobody touches the memory anymore. Then the memory belongs
// to the caller again. If ctx ends first, Close returns region.ErrPinned and may be called again. It
// flushes nothing: acknowledged records are already durable.
func (l *Log) Close(ctx context.Context) error {
	l.fail(ErrClosed)
	l.order.Lock()
	defer l.order.Unlock()
	l.quiet.timer.Stop()
	select { // waits for the flush of a quiet log
	case l.quiet.turn <- struct{}{}:
		defer func() { <-l.quiet.turn }()
	case <-ctx.Done():
		return region.ErrPinned
	}
	l.reads.Lock() // waits for whoever is reading
	defer l.reads.Unlock()
	l.epoch()
	return l.quiesce(ctx)
}

// ReleasedError reports that a record was released, and is not kept anymore. The oldest record that is kept, or
// will be the next one, is First.
type ReleasedError struct{ Seq, First uint64 }

// Error names both records.
func (e *ReleasedError) Error() string {
	return fmt.Sprintf("commitlog: record %d was released (the oldest one now is %d)", e.Seq, e.First)
}

// Read returns the records from number from on, as many as take at most octets of the ring, but at least one.
// 0 means from the oldest one that is kept. Read takes nothing away from Next: the records stay until Release.
// If record from is not in the log yet, Read waits for it until ctx ends. The errors are those of Next, and
// *ReleasedError.
func (l *Log) Read(ctx context.Context, from uint64, octets int) (recs []*Record, err error) {
	werr := l.wait(ctx, func() bool {
		recs, err = l.tryRead(from, octets)
		return len(recs) > 0 || err != nil
	})
	return recs, cmp.Or(err, werr)
}

func (l *Log) tryRead(from uint64, octets int) ([]*Record, error) {
	l.reads.Lock()
	defer l.reads.Unlock()
	l.mu.Lock()
	err := l.failed()
	k := l.cons.Kept(l.Tail())
	l.mu.Unlock()
	switch {
	case err != nil:
		return nil, err
	case from != 0 && from < k.Head.Seq:
		return nil, &ReleasedError{Seq: from, First: k.Head.Seq}
	}
	return l.view.Read(&k, from, uint64(max(octets, 0)))
}

// bell wakes those who wait for something. Ringing costs one load while nobody waits: the goroutine that
// rings is the one that answers the producer.
type bell struct{ c atomic.Pointer[chan struct{}] }

// wait returns a channel that the next ring closes.
func (b *bell) wait() <-chan struct{} {
	for {
		if c := b.c.Load(); c != nil {
			return *c
		}
		if c := make(chan struct{}); b.c.CompareAndSwap(nil, &c) {
			return c
		}
	}
}

func (b *bell) ring() {
	if b.c.Load() == nil {
		return
	}
	if c := b.c.Swap(nil); c != nil {
		close(*c)
	}
}

// quietTime is how long the tail must not have moved before it is made durable by itself. While a log is busy, its
// flushes include the tail from time to time.
const quietTime = 100 * time.Millisecond

// quiet notices that a log in wal mode is not appended to.
type quiet struct {
	armed atomic.Bool // the timer runs
	timer *time.Timer

	turn chan struct{} // one slot: held while the memory is used, which may take as long as the disk does
	seen uint64        // the tail when the timer fired last
}

// tailMoved is called after a store or a flush of the tail.
func (l *Log) tailMoved() {
	l.moved.ring()
	if q := &l.quiet; !q.armed.Load() && l.mem.flushed.Load() < l.mem.tail.Load() && q.armed.CompareAndSwap(false, true) {
		q.timer.Reset(quietTime)
	}
}

// settle makes the tail durable if it has not moved for a while.
func (l *Log) settle() {
	q := &l.quiet
	q.turn <- struct{}{}
	defer func() { <-q.turn }()
	if l.failed() != nil {
		return
	}
	if tail := l.mem.tail.Load(); tail != q.seen {
		q.seen = tail
		q.timer.Reset(quietTime)
		return
	}
	q.armed.Store(false)
	_ = l.mem.Settle() // the first error has ended the log
}
