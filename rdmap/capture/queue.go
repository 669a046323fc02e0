package capture

import (
	"sync"
	"time"
)

// QueueSize is how many octets wait for the file at most, and as many more while they
// are being written.
const QueueSize = 8 << 20

// Patience is how long a full queue holds up a connection, once per stall.
const Patience = 100 * time.Millisecond

// recordCost is what an entry of the queue takes besides its octets, roughly.
const recordCost = 128

// kind says what happened.
type kind uint8

const (
	kindOpen kind = iota // the three packets of TCP's handshake
	kindData             // n octets
	kindFIN              // the end of one direction
)

// record is one thing that happened, in the order of the queue.
type record struct {
	kind kind
	dir  Dir
	c    *Conn
	at   time.Time
	n    int    // octets in batch.data
	lost uint64 // octets of this direction in front of it that found no room
}

// batch is what the queue hands over at one time.
type batch struct {
	records []record
	data    []byte
}

func (b *batch) cost() int { return len(b.data) + recordCost*len(b.records) }

func (b *batch) reset() { b.records, b.data = b.records[:0], b.data[:0] }

// queue passes records from many goroutines to one. It swaps two batches, whose
// memory is reused. The zero value is not usable.
type queue struct {
	limit   int // QueueSize; tests have less
	mu      sync.Mutex
	filling batch
	last    time.Time     // of the record added last
	hurry   bool          // somebody has waited in vain since the last swap: nobody else does
	dropped uint64        // octets that found no room, in all
	room    chan struct{} // closed by the next swap
	more    chan struct{} // holds a token while filling may hold something
	closed  bool
}

func newQueue() *queue {
	return &queue{limit: QueueSize, room: make(chan struct{}), more: make(chan struct{}, 1)}
}

// add appends r, whose octets are p, which it copies. Without room after Patience r is
// dropped, and the octets count as lost.
func (q *queue) add(r record, p []byte) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.filling.cost()+recordCost+len(p) > q.limit && !q.wait(recordCost+len(p)) {
		q.dropped += uint64(len(p))
		r.c.lost[r.dir] += uint64(len(p))
		return
	}
	if q.closed {
		return
	}
	if now := time.Now(); now.After(q.last) {
		q.last = now
	}
	r.at, r.n = q.last, len(p)
	if r.kind != kindOpen {
		r.lost, r.c.lost[r.dir] = r.c.lost[r.dir], 0
	}
	q.filling.records = append(q.filling.records, r)
	q.filling.data = append(q.filling.data, p...)
	select {
	case q.more <- struct{}{}:
	default:
	}
}

// wait waits for room for n octets, with mu held except while it waits.
func (q *queue) wait(n int) bool {
	var timeout <-chan time.Time
	for q.filling.cost()+n > q.limit && !q.closed {
		if q.hurry {
			return false
		}
		if timeout == nil {
			t := time.NewTimer(Patience)
			defer t.Stop()
			timeout = t.C
		}
		room := q.room
		q.mu.Unlock()
		select {
		case <-room:
		case <-timeout:
		}
		timedOut := !isClosed(room)
		q.mu.Lock()
		q.hurry = q.hurry || timedOut
	}
	return true
}

// swap hands out what is there in exchange for b, which it empties.
func (q *queue) swap(b *batch) {
	b.reset()
	q.mu.Lock()
	defer q.mu.Unlock()
	*b, q.filling = q.filling, *b
	q.hurry = false
	close(q.room)
	q.room = make(chan struct{})
}

// close lets nothing more in.
func (q *queue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.closed {
		q.closed = true
		close(q.more)
	}
}

func (q *queue) lost() uint64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.dropped
}

func isClosed(ch <-chan struct{}) bool {
	select {
	case <-ch:
		return true
	default:
		return false
	}
}
