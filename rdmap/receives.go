package rdmap

import (
	"sync"
	"sync/atomic"
)

// recvQueue counts receives that connections share, first come, first served.
type recvQueue struct {
	mu     sync.Mutex
	posted int
	limit  int // 0: not armed
	event  func()
}

// newRecvQueue returns a queue with n receives posted.
func newRecvQueue(n int) *recvQueue { return &recvQueue{posted: n} }

// post posts n more receives.
func (q *recvQueue) post(n int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.posted += n
}

// count returns how many receives are posted and not yet taken.
func (q *recvQueue) count() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.posted
}

// arm asks for the limit event: event is called once, as soon as fewer than limit receives are
// posted, which may be at once. It runs in the goroutine that reads the connection that took the
// receive, or in that of the caller of arm. It must not block, but may call post and arm. A later arm
// replaces the event, and a limit of 0 disarms it.
func (q *recvQueue) arm(limit int, event func()) {
	q.mu.Lock()
	q.limit, q.event = limit, event
	event = q.due()
	q.mu.Unlock()
	if event != nil {
		event()
	}
}

// take takes one receive.
func (q *recvQueue) take() bool {
	q.mu.Lock()
	if q.posted <= 0 {
		q.mu.Unlock()
		return false
	}
	q.posted--
	event := q.due()
	q.mu.Unlock()
	if event != nil {
		event()
	}
	return true
}

// due returns the event, and disarms it, if it has to be called now; otherwise nil. q.mu is held.
func (q *recvQueue) due() func() {
	if q.posted >= q.limit {
		return nil
	}
	event := q.event
	q.limit, q.event = 0, nil
	return event
}

// share is a connection's part of a recvQueue. All of it but used belongs to the holder of the
// reading role.
type share struct {
	q     *recvQueue
	quota int          // most receives in use; 0: no bound of its own
	next  bool         // a receive is taken for the next message to begin
	open  bool         // the receive used last is that of a message not yet delivered
	used  atomic.Int64 // taken by messages and not posted again
}

// reserve takes a receive for the next message to begin, unless there is one already, and returns how
// many messages may begin. It takes it before DDP checks the message: otherwise two connections that
// both saw the last receive would both accept a message.
func (s *share) reserve() int {
	used := int(s.used.Load())
	if s.quota != 0 && used >= s.quota {
		return 0
	}
	if !s.next {
		s.next = s.q.take()
	}
	if !s.next {
		return 0
	}
	n := 1 + s.q.count()
	if s.quota != 0 {
		n = min(n, s.quota-used)
	}
	return n
}

// use is called when the message has begun.
func (s *share) use() {
	s.next, s.open = false, true
	s.used.Add(1)
}

// post posts n receives, which replace those in use first.
func (s *share) post(n int) {
	for {
		used := s.used.Load()
		if s.used.CompareAndSwap(used, max(used-int64(n), 0)) {
			break
		}
	}
	s.q.post(n)
}

// end gives back the receive of a message that has not begun or not been delivered, since nobody else
// knows about it.
func (s *share) end() {
	if s.next || s.open {
		s.next, s.open = false, false
		s.q.post(1)
	}
}
