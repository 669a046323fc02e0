package rdmap

import (
	"slices"
	"sync/atomic"

	"github.com/stag-rdma/stag/rdmap/ddp"
	"github.com/stag-rdma/stag/rdmap/internal/buf"
	"github.com/stag-rdma/stag/rdmap/internal/mutant"
	"github.com/stag-rdma/stag/rdmap/mpa"
	"github.com/stag-rdma/stag/rdmap/region"
	"github.com/stag-rdma/stag/rdmap/verbs"
)

// stageLimit is the FPDU size up to which payloads are copied next to their
// headers; longer ones are gathered from where they lie. One write per FPDU, or a
// piece per small payload, costs more than the copy.
const stageLimit = verbs.CopyLimit

// maxRun is how many small messages go out while a response waits.
const maxRun = 64

// work is what the flusher holds: messages taken from the sender, and the batch made of them. Only the
// flusher uses it.
type work struct {
	items []item
	box   *[]item // the box of items if they came from itemSpares, otherwise nil
	small []item  // the memory for few items
	next  int     // items[:next] are completely in the batch
	b     buf.Batch
	align alignment
	msn   [ddp.NumQueues]uint32 // of the last message built, per queue
	out   traffic
	slots *atomic.Int64 // those of the sender
	ins   *mpa.Inserter // nil if the peer wants no markers
}

// unfinished reports whether there are messages that are not completely in the batch.
func (w *work) unfinished() bool { return len(w.items) > w.next }

// inMessage reports whether a message is partly in the batch. Then the next batch follows at once,
// because it only needs octets of memory; a request that has to be executed first may take long.
func (w *work) inMessage() bool { return w.unfinished() && w.items[w.next].begun }

// take hands the flusher what may be sent next, enough for about one batch, and reports whether there
// is anything. The previous batch must have been settled.
func (s *sender) take(w *work) bool {
	w.slots = &s.slots
	if w.unfinished() && s.interleave && w.items[w.next].op == verbs.OpReadResponse {
		s.overtake(w)
	}
	if s.aborted {
		s.takeTerminate(w)
		return w.unfinished()
	}
	var n uint64
	for i := range w.items {
		n += uint64(w.items[i].n - w.items[i].sent())
	}
	for n < buf.BatchOctets && len(w.items) < buf.BatchPieces && s.takeOne(w) {
		n += uint64(w.items[len(w.items)-1].n)
	}
	return w.unfinished()
}

func (s *sender) takeTerminate(w *work) {
	if s.term != nil && !w.unfinished() {
		w.items = append(w.items, *s.term)
		s.term = nil
	}
}

// takeOne takes one message. Responses and work requests take turns, so that neither starves the
// other.
func (s *sender) takeOne(w *work) bool {
	own := s.sq.Len() > 0 && !s.stalled()
	switch {
	case mutant.CoupledDirections && s.reads.Len() > 0:
		return false
	case s.rq.Len() > 0 && s.rq.At(0).answerable() && !(own && s.turn):
		it := w.add()
		s.rq.PopTo(it)
		if mutant.ResponseOrder && s.rq.Len() > 0 {
			*it, *s.rq.At(0) = *s.rq.At(0), *it
		}
		s.handed++
		s.turn, s.run = true, 0
	case own && s.buildable(s.sq.At(0)):
		s.takeOwn(w)
	default:
		return false
	}
	return true
}

func (s *sender) takeOwn(w *work) {
	it := w.add()
	s.sq.PopTo(it)
	if mutant.SubmissionOrder && s.sq.Len() > 0 {
		*it, *s.sq.At(0) = *s.sq.At(0), *it
	}
	if asks(it.op) {
		s.reads.Push(it.read)
		if it.op != verbs.OpReadRequest {
			s.due++
		}
		if it.read.size >= directLong {
			s.long.Add(1)
		}
	}
	s.order.taken(it)
	// Small messages go in runs: the turn passes at a long message, or when a run has kept
	// responses waiting for long enough.
	if s.run += it.messages; !it.framed || s.run >= maxRun {
		s.turn, s.run = false, 0
	}
}

// overtake takes whole short Sends and puts them before the rest of a Read Response. Choice: only if
// the peer is a stag.
func (s *sender) overtake(w *work) {
	for at := w.next; s.sq.Len() > 0 && s.sq.At(0).framed && s.sq.At(0).op.IsSend() && at < 64; at++ {
		it := s.sq.Pop()
		s.order.taken(&it)
		w.items = slices.Insert(w.items, at, it)
	}
}

// settle ends a batch: what is completely in it has been written, or, if failed, nothing that was
// taken ever will be. It appends the completions that are due to out.
func (s *sender) settle(w *work, failed bool, out []completion) []completion {
	n := w.next
	if failed {
		n = len(w.items)
	}
	for i := range n {
		it := &w.items[i]
		s.release(it)
		if it.isResp {
			s.handed--
		} else {
			out = s.order.wrote(it, out)
		}
	}
	w.b.Reset()
	w.align.at = 0
	w.drop(n)
	if s.sq.Len() == 0 && !w.unfinished() {
		s.idle()
	}
	return out
}

// prune drops what was taken and has not begun: the connection has failed, and only the message that
// is partly sent continues to its end.
func (s *sender) prune(w *work, out []completion) []completion {
	keep := 0
	if w.unfinished() && w.items[0].begun && !w.items[0].broken {
		keep = 1
	}
	for i := keep; i < len(w.items); i++ {
		it := &w.items[i]
		s.release(it)
		if !it.isResp {
			out = s.order.wrote(it, out)
		}
	}
	clear(w.items[keep:])
	w.items = w.items[:keep]
	if keep == 0 {
		out = append(out, s.late...)
		s.late = nil
	}
	return out
}

// idle gives back what an idle connection does not need.
func (s *sender) idle() {
	s.arena.Drop()
	s.sq.Trim()
	s.rq.Trim()
}

// drop forgets the first n items.
func (w *work) drop(n int) {
	rest := copy(w.items, w.items[n:])
	clear(w.items[rest:])
	w.items, w.next = w.items[:rest], 0
	if rest == 0 && cap(w.items) > buf.RingKeep {
		if w.box != nil && cap(w.items) != buf.PooledLen {
			clear(*w.box) // items has grown out of it
		}
		itemSpares.Put(w.box)
		w.items, w.box = w.small, nil
	}
}

// add appends a zero item. If there are more than a few, they lie in spare memory.
func (w *work) add() *item {
	if n := len(w.items); n == cap(w.items) && n < buf.PooledLen {
		b, box := itemSpares.Get(max(4, 2*n))
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
		w.items = append(w.items, item{})
	}
	return &w.items[len(w.items)-1]
}

// sent returns how many payload octets of it are already in FPDUs.
func (it *item) sent() uint32 {
	if !it.begun || it.framed {
		return 0
	}
	return it.off
}

// fill builds FPDUs from the items until the batch is full or nothing is left. An error means that a
// request of the peer cannot be carried out, or not completely; the batch then holds what precedes
// it.
func (w *work) fill(mulpdu int, crc bool, table *region.Table) error {
	if w.ins == nil {
		return w.frame(mulpdu, crc, table)
	}
	err := w.frame(mulpdu, false, table) // the CRC covers the markers
	w.mark(crc)
	return err
}

// frame is fill without the markers.
func (w *work) frame(mulpdu int, crc bool, table *region.Table) error {
	for w.next < len(w.items) && !w.b.Full() {
		it := &w.items[w.next]
		if it.isResp && !it.begun && !it.executed {
			if it.req.stores() && w.lends() && !mutant.StoreInBatch {
				return nil
			}
			if err := it.execute(table); err != nil {
				return err
			}
		}
		whole, err := w.build(it, ddp.MaxPayload(it.seg.Tagged, mulpdu), crc)
		if err != nil {
			it.broken = true
			return it.req.refuse(memoryFailed(&it.view, err), err)
		}
		if !whole {
			return nil
		}
		if it.isResp {
			w.slots.Add(-1)
		}
		w.next++
	}
	return nil
}

// lends reports whether the batch borrows octets of a region. Those are written before a request
// stores anything: a Read Response is older than the requests after it, and its CRC is that of the
// octets as they were.
func (w *work) lends() bool {
	for i := range w.next {
		if it := &w.items[i]; it.pinned && !it.copied() {
			return true
		}
	}
	return false
}

// build adds FPDUs of it to the batch and reports whether all of it is now in the batch.
func (w *work) build(it *item, maxPayload int, crc bool) (whole bool, err error) {
	if !it.begun {
		it.begun = true
		w.count(it)
		if !it.seg.Tagged && !it.framed {
			w.msn[it.seg.QN]++
			it.seg.MSN = w.msn[it.seg.QN]
		}
		if it.isResp && !it.seg.Tagged {
			// One segment, copied below: the item does not move before that.
			it.body = it.req.body[:it.n]
		}
	}
	if it.framed {
		w.out.fpdus += uint64(it.seal(&w.msn[it.seg.QN], crc))
		w.addFPDUs(it.room)
		w.out.octets += uint64(len(it.room.B))
		it.whole = true
	}
	for !it.whole && !w.b.Full() {
		if err := w.segments(it, maxPayload, crc); err != nil {
			return false, err
		}
	}
	return it.whole, nil
}

// segments adds the next FPDUs of a message that is not framed, at least one. Short ones are copied,
// and so is Guarded memory of any size: neither the CRC nor the system call may touch it.
func (w *work) segments(it *item, maxPayload int, crc bool) error {
	s := it.seg
	if s.Tagged {
		s.TO += uint64(it.off)
	} else {
		s.MO = it.off
	}
	hdr, left := s.HeaderLen(), int(it.n-it.off)
	n := min(left, maxPayload)
	fpdus, size := 1, mpa.FPDULen(hdr+n)
	switch {
	case it.pinned && it.view.Guarded():
		r := w.b.Room(size)
		s.Last = n == left
		frameFPDU(r.B, &s, n)
		if err := it.view.CopyOut(r.B[mpa.HeaderLen+hdr:][:n], int(it.off)); err != nil {
			return err
		}
		if crc {
			mpa.WriteCRCs(r.B)
		}
		w.addFPDUs(r)
	case size <= stageLimit || it.copied():
		if more := w.b.Free() / size; more > 1 {
			n = min(left, more*maxPayload)
			size = framedLen(s.Tagged, n, maxPayload)
		}
		r := w.b.Room(size)
		front, back := it.payload(int(it.off), n)
		fpdus = fillFPDUs(r.B, s, front, back, maxPayload, n == left, crc)
		w.addFPDUs(r)
	default:
		s.Last = n == left
		w.gather(it, &s, int(it.off), n, crc)
	}
	it.off += uint32(n)
	it.whole = n == left
	w.out.fpdus += uint64(fpdus)
	w.out.octets += uint64(size)
	return nil
}

// gather is segments for one payload that is written from where it lies.
func (w *work) gather(it *item, s *ddp.Segment, off, n int, crc bool) {
	hdr := s.HeaderLen()
	front, back := it.payload(off, n)
	if w.align.emss > 0 && w.align.before(mpa.FPDULen(hdr+n), mpa.TrailerLen(hdr+n)) {
		w.b.Cut()
	}
	head := w.b.Stage(mpa.HeaderLen + hdr)
	mpa.AppendHeader(head[:0], hdr+n)
	s.Append(head[:mpa.HeaderLen])
	var sum uint32
	if crc {
		sum = mpa.UpdateCRC(mpa.UpdateCRC(mpa.UpdateCRC(0, head), front), back)
	}
	w.b.Ref(front)
	w.b.Ref(back)
	mpa.AppendTrailer(w.b.Stage(mpa.TrailerLen(hdr + n))[:0], hdr+n, sum, crc)
}

// copied reports whether the payload lies in memory that peers may store to, or that may be touched
// only through its guard. Such memory is not lent to the socket, since a store between the CRC and the
// socket would look like a bad CRC to the peer.
func (it *item) copied() bool {
	const stores = region.RemoteWrite | region.Atomic
	return it.pinned && (it.view.Guarded() || it.view.Access()&stores != 0 && !mutant.LendWritable)
}

// payload returns octets [off, off+n) of head followed by body, in two parts.
func (it *item) payload(off, n int) (front, back []byte) {
	head := it.head()
	if off < len(head) {
		front = head[off:min(off+n, len(head))]
		n -= len(front)
		off = len(head)
	}
	off -= len(head)
	return front, it.body[off : off+n]
}

func (w *work) count(it *item) {
	w.out.message(it.op, max(it.messages, 1))
	switch it.op {
	case verbs.OpWrite:
		w.out.writeOctets += uint64(it.n)
	case verbs.OpReadResponse:
		w.out.readOctets += uint64(it.n)
	default:
	}
}
