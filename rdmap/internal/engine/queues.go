package engine

import (
	"errors"
	"math"
	"sync"
	"sync/atomic"

	"github.com/stag-rdma/stag/rdmap/ddp"
	"github.com/stag-rdma/stag/rdmap/region"
	"github.com/stag-rdma/stag/rdmap/verbs"
)

// sendQueue is queue 0: the receives posted by the upper layer. A posted receive is only a count;
// memory is taken only for a Send of several segments, or for one that has to be kept.
type sendQueue Receiver

func (q *sendQueue) Posted() int {
	switch {
	case q.rtr:
		return 1 // RFC 6581 Section 9.2: the engine's own buffer
	case q.Receives != nil:
		return q.Receives.reserve()
	}
	return int(min(q.Recvs.Load(), math.MaxInt32)) // int may have 32 bits
}

// Size returns the size of a receive. Immediate Data fits any.
func (q *sendQueue) Size() int {
	if !q.now.IsSend() {
		return max(q.size, immediateLen)
	}
	return q.size
}

func (q *sendQueue) Open(s *ddp.Segment) ([]byte, bool) {
	if q.rtr {
		return nil, true
	}
	if !s.Last || q.keep {
		b, ok := q.pool.Take(&q.Claim, q.Size())
		if !ok {
			return nil, false
		}
		q.buf = b
		if !s.Last {
			q.pool.Begin(&q.Arriving)
		}
	}
	if q.Receives != nil {
		q.Receives.use()
	} else {
		q.Recvs.Add(-1)
	}
	return q.buf, true
}

// requestQueue is queue 1: the IRD slots.
type requestQueue Receiver

func (q *requestQueue) Posted() int { return q.up.freeSlots() }
func (q *requestQueue) Size() int   { return len(q.request) }

func (q *requestQueue) Open(s *ddp.Segment) ([]byte, bool) {
	if s.Last {
		return nil, true
	}
	return q.request[:], true
}

// answerQueue is queue 3: one slot for each response that is due.
type answerQueue Receiver

func (q *answerQueue) Posted() int { return q.up.expected() }
func (q *answerQueue) Size() int   { return len(q.answer) }

func (q *answerQueue) Open(s *ddp.Segment) ([]byte, bool) {
	if s.Last {
		return nil, true
	}
	return q.answer[:], true
}

// terminateQueue is queue 2: one slot. The message that takes it ends the stream.
type terminateQueue Receiver

func (q *terminateQueue) Posted() int { return 1 }
func (q *terminateQueue) Size() int   { return len(q.termBuf) }

func (q *terminateQueue) Open(s *ddp.Segment) ([]byte, bool) {
	if s.Last {
		return nil, true
	}
	return q.termBuf[:], true
}

// sinks finds the memory of tagged segments.
type sinks Receiver

// Sink implements ddp.Sinks. A segment of a Read Response has been compared with its request already.
func (r *sinks) Sink(s *ddp.Segment, n int) ([]byte, ddp.Violation) {
	need := region.RemoteWrite
	response := verbs.Opcode(s.Control&0x0f) == verbs.OpReadResponse
	if response {
		need = region.ReadSink
	}
	v, err := r.table.Lookup(region.STag(s.STag), s.TO, uint32(n), need)
	if err == nil {
		r.view = v
		return v.Bytes(), ddp.OK
	}
	if response {
		// A cancelled Read no longer has a sink, but its Response is due.
		if rd, ok := r.up.head(); ok && rd.cancelled {
			return r.discard(n), ddp.OK
		}
	}
	return nil, sinkViolation(err)
}

// Placed implements ddp.Sinks.
func (r *sinks) Placed(*ddp.Segment) { r.view.Release() }

// place puts the payload of the segment u, whose header DDP has checked, into its place. Guarded
// memory does that itself: it may be gone, or may track stores.
func (r *Receiver) place(u, payload []byte) (ddp.Event, error) {
	dst, err := r.ddp.Reserve()
	if errors.Is(err, ddp.ErrStalled) {
		return ddp.Event{}, err
	}
	if err != nil {
		return ddp.Event{}, protocolError(err, u)
	}
	switch {
	case r.inPlace:
	case !r.view.Guarded():
		copy(dst, payload)
	default:
		if err := r.view.CopyIn(payload); err != nil {
			return ddp.Event{}, r.refuse(memoryFailed(&r.view, err), u, err)
		}
	}
	r.view.Stored()
	return r.ddp.Commit(payload), nil
}

func (r *sinks) discard(n int) []byte {
	if cap(r.scratch) < n {
		r.scratch = make([]byte, n)
	}
	return r.scratch[:n]
}

// sinkViolation maps a refusal of the region table to an error of DDP. RFC 5041 has no code for a
// missing right. Choice: invalid STag.
func sinkViolation(err error) ddp.Violation {
	switch {
	case errors.Is(err, region.ErrNotAssociated):
		return ddp.NotAssociated
	case errors.Is(err, region.ErrWrap):
		return ddp.TOWrap
	case errors.Is(err, region.ErrBounds):
		return ddp.BaseBounds
	}
	return ddp.InvalidSTag
}

// RecvQueue counts receives that connections share, first come, first served.
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

// Count returns how many receives are posted and not yet taken.
func (q *RecvQueue) Count() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.posted
}

// Arm asks for the limit event: event is called once, as soon as fewer than limit receives are
// posted, which may be at once. It runs in the goroutine that reads the connection that took the
// receive, or in that of the caller of arm. It must not block, but may call post and arm. A later arm
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

// due returns the event, and disarms it, if it has to be called now; otherwise nil. q.mu is held.
func (q *RecvQueue) due() func() {
	if q.posted >= q.limit {
		return nil
	}
	event := q.event
	q.limit, q.event = 0, nil
	return event
}

// receives is a connection's part of a recvQueue. All of it but used belongs to the holder of the
// reading role.
type receives struct {
	q     *RecvQueue
	quota int          // most receives in use; 0: no bound of its own
	next  bool         // a receive is taken for the next message to begin
	open  bool         // the receive used last is that of a message not yet delivered
	used  atomic.Int64 // taken by messages and not posted again
}

// reserve takes a receive for the next message to begin, unless there is one already, and returns how
// many messages may begin. It takes it before DDP checks the message: otherwise two connections that
// both saw the last receive would both accept a message.
func (s *receives) reserve() int {
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
	n := 1 + s.q.Count()
	if s.quota != 0 {
		n = min(n, s.quota-used)
	}
	return n
}

// use is called when the message has begun.
func (s *receives) use() {
	s.next, s.open = false, true
	s.used.Add(1)
}

// Post posts n receives, which replace those in use first.
func (s *receives) Post(n int) {
	for {
		used := s.used.Load()
		if s.used.CompareAndSwap(used, max(used-int64(n), 0)) {
			break
		}
	}
	s.q.Post(n)
}

// end gives back the receive of a message that has not begun or not been delivered, since nobody else
// knows about it.
func (s *receives) end() {
	if s.next || s.open {
		s.next, s.open = false, false
		s.q.Post(1)
	}
}
