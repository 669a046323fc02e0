package engine

import (
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/stag-rdma/stag/rdmap/ddp"
	"github.com/stag-rdma/stag/rdmap/internal/buf"
	"github.com/stag-rdma/stag/rdmap/mpa"
	"github.com/stag-rdma/stag/rdmap/region"
	"github.com/stag-rdma/stag/rdmap/verbs"
)

// Sender is the sending half: work requests and responses in, messages for a Work out. Posters, the Receiver and the
// writer use it under the lock that the Receiver was given. Without that lock the writer calls Work.Build, which touches
// only what Take has handed over.
type Sender struct {
	MULPDU int
	CRC    bool
	ORD    int // most requests of ours in flight
	ird    int // most requests of the peer held
	// Interleave: whole Sends may pass between the segments of a Read Response.
	interleave bool
	Limit      int // most copied octets waiting
	Table      *region.Table
	Sinks      *region.Table // has the sinks of our Reads; nil: they are not checked

	state atomic.Uint32 // a State
	err   error         // the first fatal error
	late  []Completion  // of work requests that were not taken, behind one that was being written

	requests  buf.Ring[message] // work requests, in order
	responses buf.Ring[message] // responses, in order of the requests
	inFlight  buf.Ring[outRead] // our requests in flight, in order
	Long      atomic.Int64      // of reads: those of at least directLong octets
	// Slots counts the IRD slots in use. A slot is free again when its response has been
	// handed down (RFC 5040 Section 6.1). That is before the write: the peer may see the
	// response, and use the slot, before the write returns.
	slots    atomic.Int64
	turn     bool // it is the send queue's turn
	run      int  // small messages taken in this turn
	Copied   int  // octets of the arena that wait
	arena    buf.Arena
	order    completions
	term     *message // to be sent last
	Ext      verbs.Extensions
	lastID   uint32 // identifier of the last Atomic Request
	handed   int    // responses that the writer has and has not yet written
	tasked   bool   // a Task is between Begin and Next
	expected int    // of reads: those whose response comes on queue 3
	Local    error  // why the head of sq cannot be built; ends the connection
}

// Ready reports whether take would find something, given what is unfinished.
func (s *Sender) Ready(w *Work) bool {
	switch {
	case s.State() < StateOpen:
		return false
	case w.unfinished() || s.term != nil || s.responses.Len() > 0 && s.responses.At(0).answerable():
		return true
	}
	return s.requests.Len() > 0 && !s.stalled()
}

// stalled reports whether the send queue waits for an outbound read slot. Because of the "completion
// order" of RFC 5040 Section 6.1, what follows the Read has to wait too.
func (s *Sender) stalled() bool {
	return Asks(s.requests.At(0).op) && s.inFlight.Len() >= s.ORD
}

// Post appends a work request that has passed its checks.
func (s *Sender) Post(wr *verbs.WR) {
	if s.coalesce(wr) {
		return
	}
	it := s.requests.Add()
	it.template(wr)
	max := ddp.MaxPayload(it.seg.Tagged, s.MULPDU)
	if Asks(wr.Op) {
		s.postRequest(it, wr, max)
		return
	}
	if Payload(wr) <= verbs.CopyLimit {
		s.frame(it, wr.Head, wr.Body, max)
		return
	}
	it.octets = uint32(Payload(wr))
	it.room = s.arena.Reserve(len(wr.Head))
	copy(it.room.B, wr.Head)
	s.Copied += len(it.room.B)
	it.body = wr.Body
}

// postRequest makes it a request of queue 1.
func (s *Sender) postRequest(it *message, wr *verbs.WR, maxPayload int) {
	var b [maxRequest]byte
	it.read = outRead{op: wr.Op, done: wr.Done, answer: wr.Answer}
	if wr.Op == verbs.OpVerifyRequest && Payload(wr) > 0 {
		it.read.want = hashes.Get().(*wantedHash).set(wr.Head, wr.Body)
	}
	switch wr.Op {
	case verbs.OpReadRequest:
		it.read.sink, it.read.sinkTO, it.read.size = wr.Sink, wr.SinkTO, wr.Len
		it.read.invalidate = wr.InvalidateSink
		rr := readRequest{Sink: wr.Sink, SinkTO: wr.SinkTO, Size: wr.Len, Src: wr.STag, SrcTO: wr.TO}
		s.frame(it, rr.append(b[:0]), nil, maxPayload)
	case verbs.OpAtomicRequest:
		s.lastID++
		it.read.id = s.lastID
		a := atomicRequest{Atomic: *wr.Atomic, id: s.lastID, stag: wr.STag, to: wr.TO}
		s.frame(it, a.append(b[:0]), nil, maxPayload)
	case verbs.OpFlushRequest:
		g := target{STag: wr.STag, N: wr.Len, To: wr.TO}
		s.frame(it, append(g.append(b[:0]), 0, 0, 0, byte(wr.Flags)), nil, maxPayload)
	case verbs.OpVerifyRequest, verbs.OpAtomicWriteRequest:
		g := target{STag: wr.STag, N: wr.Len, To: wr.TO}
		if wr.Op == verbs.OpAtomicWriteRequest {
			g.N = 8
		}
		s.frame(it, append(append(g.append(b[:0]), wr.Head...), wr.Body...), nil, maxPayload)
	default:
	}
}

// frame frames it with the given payload.
func (s *Sender) frame(it *message, head, body []byte, maxPayload int) {
	it.octets = uint32(len(head) + len(body))
	it.framed, it.messages = true, 1
	it.room = s.arena.Reserve(framedLen(it.seg.Tagged, int(it.octets), maxPayload))
	s.Copied += len(it.room.B)
	fillFPDUs(it.room.B, it.seg, head, body, maxPayload, true, false)
}

// HasRoom reports whether wrs may be queued.
func (s *Sender) HasRoom(wrs []verbs.WR) bool {
	if s.Copied == 0 {
		return true // an empty queue takes one batch of any size
	}
	n := s.Copied
	for i := range wrs {
		n += len(wrs[i].Head)
		if Payload(&wrs[i]) <= verbs.CopyLimit {
			n += len(wrs[i].Body) + mpa.FPDULen(ddp.UntaggedLen)
		}
	}
	return n <= s.Limit
}

// Request queues a request of the peer. It reports false when the IRD slots are
// used up.
func (s *Sender) hold(req *request) bool {
	if s.freeSlots() <= 0 {
		return false
	}
	s.slots.Add(1)
	it := s.responses.Add()
	it.isResp, it.req = true, *req // its state is queued
	switch req.Op {
	case verbs.OpReadRequest:
		var rr readRequest
		rr.parse(req.Body[:])
		it.octets = rr.Size
	case verbs.OpVerifyRequest:
		var g target
		g.parse(req.Body[:])
		it.req.slow = s.Table.ReadsBack(g.STag)
	default:
	}
	return true
}

// freeSlots returns how many more requests the peer may send now.
func (s *Sender) freeSlots() int { return s.ird - int(s.slots.Load()) }

// readHead returns the oldest request of ours in flight.
func (s *Sender) readHead() (outRead, bool) {
	if s.inFlight.Len() == 0 {
		return outRead{}, false
	}
	return *s.inFlight.At(0), true
}

// readDone ends the oldest request of ours, and appends the completions that are due to out.
func (s *Sender) readDone(out []Completion) []Completion {
	rd := s.inFlight.Pop()
	if rd.op != verbs.OpReadRequest {
		s.expected--
	}
	if rd.size >= directLong {
		s.Long.Add(-1)
	}
	s.inFlight.Trim()
	return s.order.answer(out)
}

// Cancel removes the work request that completes done from the send queue, and reports whether it was
// still there. A Read in flight is marked, and its Response will be dropped.
func (s *Sender) Cancel(done verbs.Completer) bool {
	for i := range s.requests.Len() {
		if it := s.requests.At(i); it.done == done {
			s.withdraw(i)
			return true
		}
	}
	for i := range s.inFlight.Len() {
		if rd := s.inFlight.At(i); rd.done == done {
			rd.cancelled = true // the Response is due all the same: it has been asked for
		}
	}
	return false
}

// drop ends a message that will not be sent, or not completely.
func (s *Sender) drop(it *message, out []Completion, err error) []Completion {
	s.unpin(it)
	if it.done != nil {
		out = append(out, Completion{it.done, err})
	}
	return out
}

// unpin gives back what a message holds.
func (s *Sender) unpin(it *message) {
	s.Copied -= len(it.room.B)
	it.room.Release()
	if it.pinned {
		it.view.Release()
		it.pinned = false
	}
}

var (
	pooledMessages buf.Pooled[message]
	pooledReads    buf.Pooled[outRead]
	pooledOrder    buf.Pooled[pendingCompletion]
)

// UsePooled makes the queues share the memory of bursts with those of other connections.
func (s *Sender) UsePooled() {
	s.requests.Pooled, s.responses.Pooled, s.inFlight.Pooled, s.order.q.Pooled = &pooledMessages, &pooledMessages, &pooledReads, &pooledOrder
}

// stageLimit is the FPDU size up to which payloads are copied next to their
// headers; longer ones are gathered from where they lie. One write per FPDU, or a
// piece per small payload, costs more than the copy.
const stageLimit = verbs.CopyLimit

// maxRun is how many small messages go out while a response waits.
const maxRun = 64

// Work is what the writer holds: messages taken from the Sender, and the batch made of them. Only the
// writer uses it.
type Work struct {
	items     []message
	box       *[]message // their box if they came from pooledMessages, otherwise nil
	small     []message  // the memory for a few
	next      int        // items[:next] are completely in the batch
	Batch     buf.Batch
	alignment alignment
	msn       [ddp.NumQueues]uint32 // of the last message built, per queue
	Out       Traffic
	slots     *atomic.Int64 // those of the sender
	markers   *mpa.Inserter // nil if the peer wants no markers
}

// unfinished reports whether there are messages that are not completely in the batch.
func (w *Work) unfinished() bool { return len(w.items) > w.next }

// InMessage reports whether a message is partly in the batch. Then the next batch follows at once,
// because it only needs octets of memory; a request that has to be executed first may take long.
func (w *Work) InMessage() bool { return w.unfinished() && w.items[w.next].state >= begun }

// Take hands the writer what may be sent next, enough for about one batch, and reports whether there
// is anything. The previous batch must have been settled.
func (s *Sender) Take(w *Work) bool {
	w.slots = &s.slots
	if w.unfinished() && s.interleave && w.items[w.next].op == verbs.OpReadResponse {
		s.overtake(w) // agreed in the startup
	}
	if s.State().Ended() {
		s.takeTerminate(w) // after the message that has begun, and nothing after that
		return w.unfinished()
	}
	var n uint64
	// What is taken can no longer be cancelled, nor overtaken: not more than the batch will hold.
	for i := range w.items {
		n += uint64(w.items[i].octets - w.items[i].sent())
	}
	for n < buf.BatchOctets && len(w.items) < buf.BatchPieces && s.takeOne(w) {
		n += uint64(w.items[len(w.items)-1].octets)
	}
	return w.unfinished()
}

func (s *Sender) takeTerminate(w *Work) {
	if s.term != nil && !w.unfinished() {
		w.items = append(w.items, *s.term)
		s.term = nil
	}
}

// takeOne takes one message. Responses and work requests take turns, so that neither starves the
// other.
func (s *Sender) takeOne(w *Work) bool {
	own := s.requests.Len() > 0 && !s.stalled()
	switch {
	case s.responses.Len() > 0 && s.responses.At(0).answerable() && !(own && s.turn):
		it := w.add()
		s.responses.PopTo(it)
		s.handed++
		s.turn, s.run = true, 0
	case own && s.buildable(s.requests.At(0)):
		s.takeOwn(w)
	default:
		return false
	}
	return true
}

func (s *Sender) takeOwn(w *Work) {
	it := w.add()
	s.requests.PopTo(it)
	if Asks(it.op) {
		s.inFlight.Push(it.read)
		if it.op != verbs.OpReadRequest {
			s.expected++
		}
		if it.read.size >= directLong {
			s.Long.Add(1)
		}
	}
	s.order.taken(it)
	// Small messages go in runs: the turn passes at a long message, or when a run has kept
	// responses waiting for long enough.
	if s.run += it.messages; !it.framed || s.run >= maxRun { // a bulk message is a turn of its own
		s.turn, s.run = false, 0
	}
}

// overtake takes whole short Sends and puts them before the rest of a Read Response. Choice: only if
// the peer is a stag.
func (s *Sender) overtake(w *Work) {
	for at := w.next; s.requests.Len() > 0 && s.requests.At(0).framed && s.requests.At(0).op.IsSend() && at < 64; at++ {
		it := s.requests.Pop()
		s.order.taken(&it)
		w.items = slices.Insert(w.items, at, it)
	}
}

// Wrote ends a batch: what is completely in it has been written, or, if failed, nothing that was
// taken ever will be. It appends the completions that are due to out.
func (s *Sender) Wrote(w *Work, failed bool, out []Completion) []Completion {
	n := w.next
	if failed {
		n = len(w.items)
	}
	for i := range n {
		it := &w.items[i]
		s.unpin(it)
		if it.isResp {
			s.handed-- // at none, a request that may block is carried out
		} else {
			out = s.order.wrote(it, out)
		}
	}
	w.Batch.Reset()
	w.alignment.at = 0 // the end of a batch ends a segment
	w.drop(n)
	if s.requests.Len() == 0 && !w.unfinished() {
		s.idle()
	}
	return out
}

// Prune drops what was taken and has not begun: the connection has failed, and only the message that
// is partly sent continues to its end.
func (s *Sender) Prune(w *Work, out []Completion) []Completion {
	keep := 0
	if w.unfinished() && w.items[0].state == begun {
		keep = 1
	}
	for i := keep; i < len(w.items); i++ {
		it := &w.items[i]
		s.unpin(it)
		if !it.isResp {
			out = s.order.wrote(it, out)
		}
	}
	clear(w.items[keep:])
	w.items = w.items[:keep]
	if keep == 0 { // what was being written when it failed has been
		out = append(out, s.late...)
		s.late = nil
	}
	return out
}

// idle gives back what an idle connection does not need.
func (s *Sender) idle() {
	s.arena.Drop()
	s.requests.Trim()
	s.responses.Trim()
}

// drop forgets the first n messages.
func (w *Work) drop(n int) {
	rest := copy(w.items, w.items[n:])
	clear(w.items[rest:])
	w.items, w.next = w.items[:rest], 0
	if rest == 0 && cap(w.items) > buf.RingKeep {
		if w.box != nil && cap(w.items) != buf.PooledLen {
			clear(*w.box) // items has grown out of it
		}
		pooledMessages.Put(w.box)
		w.items, w.box = w.small, nil
	}
}

// add appends a zero message. If there are more than a few, they lie in spare memory.
func (w *Work) add() *message {
	if n := len(w.items); n == cap(w.items) && n < buf.PooledLen {
		b, box := pooledMessages.Get(max(4, 2*n))
		copy(b, w.items)
		clear(w.items)
		if n == buf.RingKeep {
			w.small = w.items[:0]
		}
		w.items, w.box = b[:n], box
	}
	if n := len(w.items); n < cap(w.items) {
		w.items = w.items[:n+1] // unused items are zero
	} else {
		w.items = append(w.items, message{})
	}
	return &w.items[len(w.items)-1]
}

// sent returns how many payload octets of it are already in FPDUs.
func (it *message) sent() uint32 {
	if it.state < begun || it.framed {
		return 0
	}
	return it.off
}

// Build builds FPDUs from the messages until the batch is full or nothing is left. An error means that a
// request of the peer cannot be carried out, or not completely; the batch then holds what precedes
// it.
func (w *Work) Build(mulpdu int, crc bool, table *region.Table) error {
	if w.markers == nil {
		return w.frame(mulpdu, crc, table)
	}
	err := w.frame(mulpdu, false, table) // the CRC covers the markers
	w.mark(crc)
	return err
}

// frame is Build without the markers.
func (w *Work) frame(mulpdu int, crc bool, table *region.Table) error {
	for w.next < len(w.items) && !w.Batch.Full() {
		it := &w.items[w.next]
		if it.state == queued {
			if it.req.stores() && w.lends() {
				return nil // the next batch begins with it
			}
			if err := it.execute(table); err != nil {
				return err
			}
		}
		whole, err := w.build(it, ddp.MaxPayload(it.seg.Tagged, mulpdu), crc)
		if err != nil {
			it.state = broken
			return it.req.refuse(memoryFailed(&it.view, err), err)
		}
		if !whole {
			return nil
		}
		if it.isResp {
			w.slots.Add(-1) // before the write, see Sender.slots
		}
		w.next++
	}
	return nil
}

// lends reports whether the batch borrows octets of a region. Those are written before a request
// stores anything: a Read Response is older than the requests after it, and its CRC is that of the
// octets as they were.
func (w *Work) lends() bool {
	for i := range w.next {
		if it := &w.items[i]; it.pinned && !it.copied() {
			return true
		}
	}
	return false
}

// build adds FPDUs of it to the batch and reports whether all of it is now in the batch.
func (w *Work) build(it *message, maxPayload int, crc bool) (whole bool, err error) {
	if it.state < begun {
		it.state = begun
		w.count(it)
		if !it.seg.Tagged && !it.framed { // seal numbers those that are framed
			w.msn[it.seg.QN]++
			it.seg.MSN = w.msn[it.seg.QN]
		}
		if it.isResp && !it.seg.Tagged {
			// One segment, copied below: it does not move before that.
			it.body = it.req.Body[:it.octets]
		}
	}
	if it.framed {
		w.Out.FPDUs += uint64(it.seal(&w.msn[it.seg.QN], crc))
		w.addFPDUs(it.room)
		w.Out.Octets += uint64(len(it.room.B))
		it.state = built
	}
	for it.state != built && !w.Batch.Full() {
		if err := w.segments(it, maxPayload, crc); err != nil {
			return false, err
		}
	}
	return it.state == built, nil
}

// segments adds the next FPDUs of a message that is not framed, at least one. Short ones are copied,
// and so is Guarded memory of any size: neither the CRC nor the system call may touch it.
func (w *Work) segments(it *message, maxPayload int, crc bool) error {
	s := it.seg
	if s.Tagged {
		s.TO += uint64(it.off)
	} else {
		s.MO = it.off
	}
	hdr, left := s.HeaderLen(), int(it.octets-it.off)
	n := min(left, maxPayload)
	fpdus, size := 1, mpa.FPDULen(hdr+n)
	switch {
	case it.pinned && it.view.Guarded():
		r := w.Batch.Room(size)
		s.Last = n == left
		frameFPDU(r.B, &s, n)
		if err := it.view.CopyOut(r.B[mpa.HeaderLen+hdr:][:n], int(it.off)); err != nil {
			return err // r was not added: no octet of this FPDU is sent
		}
		if crc {
			mpa.WriteCRCs(r.B)
		}
		w.addFPDUs(r)
	case size <= stageLimit || it.copied():
		if more := w.Batch.Free() / size; more > 1 {
			n = min(left, more*maxPayload)
			size = framedLen(s.Tagged, n, maxPayload)
		}
		r := w.Batch.Room(size)
		front, back := it.payload(int(it.off), n)
		fpdus = fillFPDUs(r.B, s, front, back, maxPayload, n == left, crc)
		w.addFPDUs(r)
	default:
		s.Last = n == left
		w.gather(it, &s, int(it.off), n, crc)
	}
	it.off += uint32(n)
	if n == left {
		it.state = built
	}
	w.Out.FPDUs += uint64(fpdus)
	w.Out.Octets += uint64(size)
	return nil
}

// gather is segments for one payload that is written from where it lies.
func (w *Work) gather(it *message, s *ddp.Segment, off, n int, crc bool) {
	hdr := s.HeaderLen()
	front, back := it.payload(off, n)
	if w.alignment.emss > 0 && w.alignment.before(mpa.FPDULen(hdr+n), mpa.TrailerLen(hdr+n)) {
		w.Batch.Cut()
	}
	head := w.Batch.Stage(mpa.HeaderLen + hdr)
	mpa.AppendHeader(head[:0], hdr+n)
	s.Append(head[:mpa.HeaderLen])
	var sum uint32
	if crc {
		sum = mpa.UpdateCRC(mpa.UpdateCRC(mpa.UpdateCRC(0, head), front), back)
	}
	w.Batch.Ref(front)
	w.Batch.Ref(back)
	mpa.AppendTrailer(w.Batch.Stage(mpa.TrailerLen(hdr + n))[:0], hdr+n, sum, crc)
}

// copied reports whether the payload lies in memory that peers may store to, or that may be touched
// only through its guard. Such memory is not lent to the socket, since a store between the CRC and the
// socket would look like a bad CRC to the peer.
func (it *message) copied() bool {
	const stores = region.RemoteWrite | region.Atomic
	return it.pinned && (it.view.Guarded() || it.view.Access()&stores != 0)
}

// payload returns octets [off, off+n) of head followed by body, in two parts.
func (it *message) payload(off, n int) (front, back []byte) {
	head := it.head()
	if off < len(head) {
		front = head[off:min(off+n, len(head))]
		n -= len(front)
		off = len(head)
	}
	off -= len(head)
	return front, it.body[off : off+n]
}

func (w *Work) count(it *message) {
	w.Out.message(it.op, max(it.messages, 1))
	switch it.op {
	case verbs.OpWrite:
		w.Out.WriteOctets += uint64(it.octets)
	case verbs.OpReadResponse:
		w.Out.ReadOctets += uint64(it.octets)
	default:
	}
}

// buildable reports whether a message of ours can be built (RFC 5040 Section 7.1). Only a Read Request
// can turn out not to be: payloads are lent memory, and responses are refused when they are executed.
// The sink of a Read may be gone since it was posted. If the request were sent all the same, the
// Response would be the first to find out, and the Terminate would blame the peer for it. So only the
// Terminate of a local catastrophic error is sent, without headers. The lock of the Conn is held.
func (s *Sender) buildable(it *message) bool {
	if it.op != verbs.OpReadRequest || it.read.size == 0 || s.Sinks == nil || s.Local != nil {
		return s.Local == nil
	}
	view, err := s.Sinks.Lookup(it.read.sink, it.read.sinkTO, it.read.size, region.ReadSink)
	if err != nil {
		s.Local = &verbs.LocalError{Err: fmt.Errorf("%w: %w", verbs.ErrSinkLost, err)}
		return false
	}
	view.Release()
	return true
}
