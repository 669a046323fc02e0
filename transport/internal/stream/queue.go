package stream

import (
	"io"
	"os"
	"sync"

	"github.com/stag-rdma/stag/transport/internal/requester"
)

// Queue holds records, including their marks, until they are read as a stream of octets. It
// is safe for concurrent use.
type Queue struct {
	Deadline Deadline
	wasRead  func() // called for each record that was completely read

	mu   sync.Mutex
	recs []Record
	off  int           // octets of recs[0] that were read
	err  error         // why no more records will come
	some chan struct{} // a hint that there is something to read
}

// Init makes the queue ready; wasRead is called for each record that was completely read.
func (q *Queue) Init(wasRead func()) { q.some, q.wasRead = make(chan struct{}, 1), wasRead }

// Push queues a record, which it takes.
func (q *Queue) Push(rec Record) {
	q.mu.Lock()
	over := q.err != nil
	if !over {
		q.recs = append(q.recs, rec)
	}
	q.mu.Unlock()
	if over {
		rec.Buf.Release()
		return
	}
	q.hint()
}

// Fail ends the stream after the queued records. The first error counts.
func (q *Queue) Fail(err error) {
	if err == nil {
		err = io.EOF
	}
	q.mu.Lock()
	if q.err == nil {
		q.err = err
	}
	q.mu.Unlock()
	q.hint()
}

// hint wakes one reader.
func (q *Queue) hint() {
	select {
	case q.some <- struct{}{}:
	default:
	}
}

// Read copies octets into p; it waits for the first one until the deadline.
func (q *Queue) Read(p []byte) (int, error) {
	for {
		passed := q.Deadline.Passed()
		select {
		case <-passed:
			return 0, os.ErrDeadlineExceeded
		default:
		}
		if n, err := q.take(p); n > 0 || err != nil || len(p) == 0 {
			return n, err
		}
		select {
		case <-q.some:
		case <-passed:
			return 0, os.ErrDeadlineExceeded
		}
	}
}

// take copies the octets that are available.
func (q *Queue) take(p []byte) (n int, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for n < len(p) && len(q.recs) > 0 {
		rec := &q.recs[0]
		k := copy(p[n:], rec.Bytes()[q.off:])
		n += k
		if q.off += k; q.off == rec.Len {
			rec.Buf.Release()
			q.off, q.recs = 0, append(q.recs[:0], q.recs[1:]...)
			q.wasRead()
		}
	}
	switch {
	case n == 0 && q.err != nil:
		q.hint() // for the next reader
		if requester.Ended(q.err) {
			return 0, io.EOF
		}
		return 0, q.err
	case len(q.recs) > 0:
		q.hint()
	}
	return n, nil
}

// Drop releases the records that nobody will read.
func (q *Queue) Drop() {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, rec := range q.recs {
		rec.Buf.Release()
	}
	q.recs, q.off = nil, 0
}
