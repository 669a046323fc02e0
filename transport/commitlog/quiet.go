package commitlog

import (
	"sync/atomic"
	"time"
)

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
	if q := &l.quiet; !q.armed.Load() && l.mem.Flushed() < l.mem.Tail() && q.armed.CompareAndSwap(false, true) {
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
	if tail := l.mem.Tail(); tail != q.seen {
		q.seen = tail
		q.timer.Reset(quietTime)
		return
	}
	q.armed.Store(false)
	_ = l.mem.Settle() // the first error has ended the log
}
