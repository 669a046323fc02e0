package rdmap

import (
	"sync"
	"sync/atomic"
)

// RecvQueue is a shared receive queue. Connections whose Config names it take the receives for
// incoming Sends and Immediates from it, first come, first served. Together they never accept
// more messages than receives were posted. A message that finds no receive ends its own
// connection with the Terminate for "no buffer" (RFC 5041 Section 7.1).
//
// A peer that sends more than its share can use up the receives of the others. Choice:
// Config.RecvQuota bounds what one connection has taken and not posted again. RFC 5042 Appendix A
// asks for such a local limit, because the protocol has none.
//
// A RecvQueue is safe for concurrent use.
type RecvQueue struct {
	mu     sync.Mutex
	posted int
	limit  int // 0: not armed
	event  func()
}

// NewRecvQueue returns a queue with n receives posted.
func NewRecvQueue(n int) *RecvQueue { return &RecvQueue{posted: n} }

// Post posts n more receives.
func (q *RecvQueue) Post(n int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.posted += n
}

// Posted returns how many receives are posted and not taken.
func (q *RecvQueue) Posted() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.posted
}

// Arm asks for the limit event: event is called once, as soon as fewer than limit receives are
// posted, which may be now. It runs in the goroutine that reads the connection that took the
// receive, or in the caller of Arm. It must not block, but may call Post and Arm. A later Arm
// replaces the event, and a limit of 0 disarms it.
func (q *RecvQueue) Arm(limit int, event func()) {
	q.mu.Lock()
	q.limit, q.event = limit, event
	event = q.due()
	q.mu.Unlock()
	if event != nil {
		event()
	}
}

// take takes one receive.
func (q *RecvQueue) take() bool {
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

// due returns the event if it is to be called now, and disarms; q.mu is held.
func (q *RecvQueue) due() func() {
	if q.posted >= q.limit {
		return nil
	}
	event := q.event
	q.limit, q.event = 0, nil
	return event
}

// share is a connection's part of a RecvQueue. It belongs to the holder of the reading
// role, but for used.
type share struct {
	q     *RecvQueue
	quota int          // receives in use at most; 0: no bound of its own
	next  bool         // one is taken for the message to begin
	open  bool         // the last one used is that of a message not delivered yet
	used  atomic.Int64 // taken by messages and not posted again
}

// reserve takes a receive for the message that is to begin, if it has none yet, and
// returns how many messages may begin. It is taken before DDP checks the message: two
// connections that both saw the last receive would both accept one.
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
	n := 1 + s.q.Posted()
	if s.quota != 0 {
		n = min(n, s.quota-used)
	}
	return n
}

// use says that the message has begun.
func (s *share) use() {
	s.next, s.open = false, true
	s.used.Add(1)
}

// post posts n receives, those first that are in use.
func (s *share) post(n int) {
	for {
		used := s.used.Load()
		if s.used.CompareAndSwap(used, max(used-int64(n), 0)) {
			break
		}
	}
	s.q.Post(n)
}

// end gives back the receive of a message that has not begun, or not ended: nobody
// else knows of it.
func (s *share) end() {
	if s.next || s.open {
		s.next, s.open = false, false
		s.q.Post(1)
	}
}
