package engine

import (
	"errors"
	"math"

	"github.com/stag-rdma/stag/rdmap/ddp"
	"github.com/stag-rdma/stag/rdmap/region"
	"github.com/stag-rdma/stag/rdmap/verbs"
)

// sendQueue is queue 0: the receives posted by the upper layer. A posted receive is only a count;
// memory is taken only for a Send of several segments, or for one that has to be kept.
type sendQueue Receiver

func (q *sendQueue) Posted() int {
	if q.rtr {
		return 1 // RFC 6581 Section 9.2: the engine's own buffer
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
	if !s.Last || q.keep { // a whole one is delivered where it lies
		b, ok := q.pool.Take(&q.Claim, q.Size())
		if !ok {
			return nil, false // the receive is not taken: the segment comes again
		}
		q.buf = b
		if !s.Last {
			q.pool.Begin(&q.Arriving)
		}
	}
	q.Recvs.Add(-1)
	return q.buf, true
}

// requestQueue is queue 1: the IRD slots.
type requestQueue Receiver

func (q *requestQueue) Posted() int { return q.up.freeSlots() }
func (q *requestQueue) Size() int   { return len(q.request) }

func (q *requestQueue) Open(s *ddp.Segment) ([]byte, bool) {
	if s.Last {
		return nil, true // as nearly always: nothing is copied here
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
		need = region.ReadSink // the peer needs no right to write for what we have asked for
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
	r.view.Filled(len(payload))
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
