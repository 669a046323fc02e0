package commitlog

import (
	"cmp"
	"context"
	"fmt"
	"sync/atomic"
)

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
