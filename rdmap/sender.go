package rdmap

import (
	"sync/atomic"

	"github.com/stag-rdma/stag/rdmap/ddp"
	"github.com/stag-rdma/stag/rdmap/internal/buf"
	"github.com/stag-rdma/stag/rdmap/internal/mutant"
	"github.com/stag-rdma/stag/rdmap/mpa"
	"github.com/stag-rdma/stag/rdmap/region"
	"github.com/stag-rdma/stag/rdmap/verbs"
)

// sender is the sending half of an engine: work requests and responses in, octets
// out. It does no I/O and has no lock.
//
// Two kinds of callers share it. Posters and the receiving half use post, request, readHead, readDone
// and terminate under the lock of the Conn. The one flusher uses take and settle under that lock too,
// and work.fill without it: fill touches only what take has handed over.
type sender struct {
	mulpdu int
	crc    bool
	ord    int // most requests of ours in flight
	ird    int // most requests of the peer held
	// interleave: whole Sends may pass between the segments of a Read Response.
	interleave bool
	limit      int // most copied octets waiting
	table      *region.Table
	sinks      *region.Table // has the sinks of our Reads; nil: they are not checked

	held bool // responder before the first FPDU: nothing may be sent (RFC 5044 Section 7.1.2)
	// aborted: the connection has failed; only a Terminate may still be queued.
	aborted bool
	late    []completion // of work requests that were not taken, behind one that was being written

	sq    buf.Ring[item]    // work requests, in order
	rq    buf.Ring[item]    // responses, in order of the requests
	reads buf.Ring[outRead] // our requests in flight, in order
	long  atomic.Int64      // of reads: those of at least directLong octets
	// slots counts the IRD slots in use. A slot is free again when its response has been
	// handed down (RFC 5040 Section 6.1). That is before the write: the peer may see the
	// response, and use the slot, before the write returns.
	slots     atomic.Int64
	turn      bool // it is the send queue's turn
	run       int  // small messages taken in this turn
	copied    int  // octets of the arena that wait
	arena     buf.Arena
	order     completions
	term      *item // to be sent last
	ext       verbs.Extensions
	lastID    uint32 // identifier of the last Atomic Request
	handed    int    // responses that the flusher has and has not yet written
	executing bool   // there is an executor
	due       int    // of reads: those whose response comes on queue 3
	local     error  // why the head of sq cannot be built; ends the connection
}

// ready reports whether take would find something, given what is unfinished.
func (s *sender) ready(w *work) bool {
	switch {
	case s.held:
		return false
	case w.unfinished() || s.term != nil || s.rq.Len() > 0 && s.rq.At(0).answerable():
		return true
	}
	return s.sq.Len() > 0 && !s.stalled()
}

// stalled reports whether the send queue waits for an outbound read slot. Because of the "completion
// order" of RFC 5040 Section 6.1, what follows the Read has to wait too.
func (s *sender) stalled() bool {
	return asks(s.sq.At(0).op) && s.reads.Len() >= s.ord || mutant.Fence && s.reads.Len() > 0
}

// post appends a work request that has passed its checks.
func (s *sender) post(wr *verbs.WR) {
	if s.join(wr) {
		return
	}
	it := s.sq.Add()
	it.template(wr)
	max := ddp.MaxPayload(it.seg.Tagged, s.mulpdu)
	if asks(wr.Op) {
		s.postRequest(it, wr, max)
		return
	}
	if payload(wr) <= verbs.CopyLimit {
		s.frame(it, wr.Head, wr.Body, max)
		return
	}
	it.n = uint32(payload(wr))
	it.room = s.arena.Reserve(len(wr.Head))
	copy(it.room.B, wr.Head)
	s.copied += len(it.room.B)
	it.body = wr.Body
}

// postRequest makes it a request of queue 1.
func (s *sender) postRequest(it *item, wr *verbs.WR, maxPayload int) {
	var b [maxRequest]byte
	it.read = outRead{op: wr.Op, done: wr.Done, answer: wr.Answer}
	if wr.Op == verbs.OpVerifyRequest && payload(wr) > 0 {
		it.read.want = hashes.Get().(*wantedHash).set(wr.Head, wr.Body)
	}
	switch wr.Op {
	case verbs.OpReadRequest:
		it.read.sink, it.read.sinkTO, it.read.size = wr.Sink, wr.SinkTO, wr.Len
		it.read.invalidate = wr.InvalidateSink
		rr := readRequest{sink: wr.Sink, sinkTO: wr.SinkTO, size: wr.Len, src: wr.STag, srcTO: wr.TO}
		s.frame(it, rr.append(b[:0]), nil, maxPayload)
	case verbs.OpAtomicRequest:
		s.lastID++
		it.read.id = s.lastID
		a := atomicRequest{Atomic: *wr.Atomic, id: s.lastID, stag: wr.STag, to: wr.TO}
		s.frame(it, a.append(b[:0]), nil, maxPayload)
	case verbs.OpFlushRequest:
		g := target{stag: wr.STag, n: wr.Len, to: wr.TO}
		s.frame(it, append(g.append(b[:0]), 0, 0, 0, byte(wr.Flags)), nil, maxPayload)
	case verbs.OpVerifyRequest, verbs.OpAtomicWriteRequest:
		g := target{stag: wr.STag, n: wr.Len, to: wr.TO}
		if wr.Op == verbs.OpAtomicWriteRequest {
			g.n = 8
		}
		s.frame(it, append(append(g.append(b[:0]), wr.Head...), wr.Body...), nil, maxPayload)
	default:
	}
}

// frame makes it a framed item with the given payload.
func (s *sender) frame(it *item, head, body []byte, maxPayload int) {
	it.n = uint32(len(head) + len(body))
	it.framed, it.messages = true, 1
	it.room = s.arena.Reserve(framedLen(it.seg.Tagged, int(it.n), maxPayload))
	s.copied += len(it.room.B)
	fillFPDUs(it.room.B, it.seg, head, body, maxPayload, true, false)
}

// hasRoom reports whether wrs may be queued.
func (s *sender) hasRoom(wrs []verbs.WR) bool {
	if s.copied == 0 {
		return true // an empty queue takes one batch of any size
	}
	n := s.copied
	for i := range wrs {
		n += len(wrs[i].Head)
		if payload(&wrs[i]) <= verbs.CopyLimit {
			n += len(wrs[i].Body) + mpa.FPDULen(ddp.UntaggedLen)
		}
	}
	return n <= s.limit
}

// request queues a request of the peer. It reports false when the IRD slots are
// used up.
func (s *sender) request(req *request) bool {
	if s.freeSlots() <= 0 {
		return false
	}
	s.slots.Add(1)
	it := s.rq.Add()
	it.isResp, it.req = true, *req
	switch req.op {
	case verbs.OpReadRequest:
		var rr readRequest
		rr.parse(req.body[:])
		it.n = rr.size
	case verbs.OpVerifyRequest:
		var g target
		g.parse(req.body[:])
		it.req.slow = s.table.ReadsBack(g.stag)
	default:
	}
	if mutant.ExecuteOnArrival && !it.req.blocks() {
		it.executed = it.execute(s.table) == nil
	}
	return true
}

// freeSlots returns how many more requests the peer may send now.
func (s *sender) freeSlots() int { return s.ird - int(s.slots.Load()) }

// readHead returns the oldest request of ours in flight.
func (s *sender) readHead() (outRead, bool) {
	if s.reads.Len() == 0 {
		return outRead{}, false
	}
	return *s.reads.At(0), true
}

// readDone ends the oldest request of ours, and appends the completions that are due to out.
func (s *sender) readDone(out []completion) []completion {
	rd := s.reads.Pop()
	if rd.op != verbs.OpReadRequest {
		s.due--
	}
	if rd.size >= directLong {
		s.long.Add(-1)
	}
	s.reads.Trim()
	return s.order.answer(out)
}

// terminate queues a Terminate as the last message of this direction, after the message that is being
// sent. It drops all others, and appends their completions to out.
func (s *sender) terminate(payload []byte, out []completion, err error, busy bool) []completion {
	out = s.abort(out, err, busy)
	it := &item{op: verbs.OpTerminate}
	it.template(&verbs.WR{Op: verbs.OpTerminate})
	s.frame(it, payload, nil, ddp.MaxPayload(false, s.mulpdu))
	s.term = it
	return out
}

// shutDown is called when nothing more can be written, not even a Terminate.
func (s *sender) shutDown() {
	if s.term != nil {
		s.release(s.term)
		s.term = nil
	}
	s.arena.Drop()
}

// abort drops everything that has not been taken, and completes it and all Reads in flight with err.
// What the flusher holds completes when it settles. If it is busy, work requests that were not taken complete
// after that, with prune: who posts a Send behind a Write takes the completion of the Send for that of both,
// and would reuse memory that is still being written from.
func (s *sender) abort(out []completion, err error, busy bool) []completion {
	s.aborted = true
	out = s.order.abort(out, err)
	for s.reads.Len() > 0 {
		s.reads.Pop()
	}
	s.due = 0
	s.long.Store(0)
	for s.sq.Len() > 0 {
		it := s.sq.Pop()
		if busy && !mutant.CompleteUnwritten {
			s.late = s.drop(&it, s.late, err)
		} else {
			out = s.drop(&it, out, err)
		}
	}
	for s.rq.Len() > 0 {
		it := s.rq.Pop()
		out = s.drop(&it, out, err)
	}
	return out
}

// cancel removes the work request that completes done from the send queue, and reports whether it was
// still there. A Read in flight is marked, and its Response will be dropped.
func (s *sender) cancel(done verbs.Completer) bool {
	for i := range s.sq.Len() {
		if it := s.sq.At(i); it.done == done {
			s.withdraw(i)
			return true
		}
	}
	for i := range s.reads.Len() {
		if rd := s.reads.At(i); rd.done == done {
			rd.cancelled = true
		}
	}
	return false
}

// drop ends an item that will not be sent, or not completely.
func (s *sender) drop(it *item, out []completion, err error) []completion {
	s.release(it)
	if it.done != nil {
		out = append(out, completion{it.done, err})
	}
	return out
}

// release gives back what an item holds.
func (s *sender) release(it *item) {
	s.copied -= len(it.room.B)
	it.room.Release()
	if it.pinned {
		it.view.Release()
		it.pinned = false
	}
}

// What an idle connection does not need is kept for all of them.
var (
	itemSpares  buf.Pooled[item]
	readSpares  buf.Pooled[outRead]
	orderSpares buf.Pooled[pendingCompletion]
)

func (s *sender) useSpares() {
	s.sq.Pooled, s.rq.Pooled, s.reads.Pooled, s.order.q.Pooled = &itemSpares, &itemSpares, &readSpares, &orderSpares
}
