package capture

import (
	"sync"
	"time"
)

// QueueSize is how many octets may wait for the file, and how many more may be being written, at
// most.
const QueueSize = 8 << 20

// Patience is how long a full queue delays a connection, once per stall.
const Patience = 100 * time.Millisecond

// recordCost is roughly the memory in octets that an entry of the queue takes besides its own octets.
const recordCost = 128

// kind is the kind of a record.
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
	lost uint64 // octets of this direction before it that found no room
}

// batch holds the records that the queue hands over together.
type batch struct {
	records []record
	data    []byte
}

func (b *batch) cost() int { return len(b.data) + recordCost*len(b.records) }

func (b *batch) reset() { b.records, b.data = b.records[:0], b.data[:0] }

// queue passes records from many goroutines to one. It swaps two batches and reuses their
// memory. The zero value is not usable.
type queue struct {
	mu      sync.Mutex
	filling batch
	last    time.Time     // time of the last record
	hurry   bool          // somebody waited in vain since the last swap, so nobody else waits
	dropped uint64        // total of octets that found no room
	room    chan struct{} // closed by the next swap
	more    chan struct{} // holds a token while filling may hold something
	closed  bool
}

func newQueue() *queue {
	return &queue{room: make(chan struct{}), more: make(chan struct{}, 1)}
}

// add appends r with the octets p, which it copies. If there is still no room after Patience, r is
// dropped and its octets count as lost.
func (q *queue) add(r record, p []byte) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.filling.cost()+recordCost+len(p) > QueueSize && !q.wait(recordCost+len(p)) {
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

// wait waits for room for n octets, and reports whether there is room. mu is held, but not while it waits.
func (q *queue) wait(n int) bool {
	var timeout <-chan time.Time
	for q.filling.cost()+n > QueueSize && !q.closed {
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

// swap exchanges b, which it empties first, for the batch that has been filled.
func (q *queue) swap(b *batch) {
	b.reset()
	q.mu.Lock()
	defer q.mu.Unlock()
	*b, q.filling = q.filling, *b
	q.hurry = false
	close(q.room)
	q.room = make(chan struct{})
}

// close makes add drop everything from now on.
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
