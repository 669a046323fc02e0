package rdmap

import (
	"encoding/binary"

	"github.com/stag-rdma/stag/rdmap/ddp"
	"github.com/stag-rdma/stag/rdmap/internal/mutant"
	"github.com/stag-rdma/stag/rdmap/mpa"
	"github.com/stag-rdma/stag/rdmap/verbs"
)

// maxJoined is the most small messages that one item holds: a run of them, after which a response has
// its turn.
const maxJoined = maxRun

// join adds wr to the item of the message posted last, if both are small and alike: what is kept,
// moved and settled for an item costs more than such a message. An item completes with its last
// message, so nothing joins one that has a Completer.
func (s *sender) join(wr *verbs.WR) bool {
	if s.sq.Len() == 0 || mutant.SubmissionOrder {
		return false
	}
	it, n := s.sq.At(s.sq.Len()-1), payload(wr)
	if it.op != wr.Op || it.done != nil || !it.framed || it.messages == maxJoined || asks(wr.Op) ||
		n > verbs.CopyLimit || n > ddp.MaxPayload(it.seg.Tagged, s.mulpdu) {
		return false
	}
	at := len(it.room.B)
	if !s.arena.Extend(&it.room, mpa.FPDULen(it.seg.HeaderLen()+n)) {
		return false
	}
	it.done = wr.Done
	it.aim(wr)
	it.n += uint32(n)
	it.messages++
	it.last = at
	s.copied += len(it.room.B) - at
	fillFPDU(it.room.B[at:], &it.seg, wr.Head, wr.Body)
	return true
}

// withdraw removes the last message of the item at i from the send queue.
func (s *sender) withdraw(i int) {
	it := s.sq.At(i)
	if it.messages <= 1 {
		s.release(it)
		s.sq.Remove(i)
		return
	}
	gone := it.room.B[it.last:]
	it.room.B = it.room.B[:it.last]
	s.copied -= len(gone)
	it.n -= uint32(binary.BigEndian.Uint16(gone)) - uint32(it.seg.HeaderLen())
	it.messages--
	it.done = nil // nothing joins after the gap that is left: extend sees to that
}

// postAll appends work requests that have passed their checks.
func (s *sender) postAll(wrs []verbs.WR) {
	for len(wrs) > 0 {
		if run := s.joinAlike(wrs); run > 0 {
			wrs = wrs[run:]
			continue
		}
		s.post(&wrs[0])
		wrs = wrs[1:]
	}
}

// joinAlike is join for the work requests at the front of wrs that have one length, and whose headers
// differ from that of the message posted last only in length and MSN. It returns how many there are.
// Their header is copied from that message, once.
func (s *sender) joinAlike(wrs []verbs.WR) (run int) {
	if s.sq.Len() == 0 || mutant.SubmissionOrder {
		return 0
	}
	it := s.sq.At(s.sq.Len() - 1)
	n, run := it.alike(wrs, min(verbs.CopyLimit, ddp.MaxPayload(false, s.mulpdu)))
	size, at := mpa.FPDULen(ddp.UntaggedLen+n), len(it.room.B)
	if run == 0 || !s.arena.Extend(&it.room, run*size) {
		return 0
	}
	like := (*untaggedHead)(it.room.B[it.last:])
	for i := range run {
		it.last = at + i*size
		fillLike(it.room.B[it.last:][:size], like, &wrs[i])
	}
	it.done = wrs[run-1].Done
	it.n += uint32(run * n)
	it.messages += run
	s.copied += run * size
	return run
}

// untaggedHead is what precedes the payload of an untagged segment in its FPDU.
type untaggedHead [mpa.HeaderLen + ddp.UntaggedLen]byte

// fillLike is fillFPDU for a Send whose header is that of another one except for the length.
func fillLike(b []byte, like *untaggedHead, wr *verbs.WR) {
	binary.BigEndian.PutUint64(b[len(b)-8:], 0) // pad and CRC, and some of what comes next
	*(*untaggedHead)(b) = *like
	binary.BigEndian.PutUint16(b, uint16(ddp.UntaggedLen+payload(wr)))
	b = b[len(like):]
	if len(wr.Head) > 0 {
		b = b[copy(b, wr.Head):]
	}
	if len(wr.Body) > 0 {
		copy(b, wr.Body)
	}
}

// alike returns how many work requests at the front of wrs may join the item after its last message
// and have the header of that message except for length and MSN. n is their payload length, which is
// the same for all and at most most.
func (it *item) alike(wrs []verbs.WR, most int) (n, run int) {
	if len(wrs) == 0 || !it.framed || it.done != nil || it.seg.Tagged || asks(it.op) || it.op.Invalidates() {
		return 0, 0
	}
	n = payload(&wrs[0])
	last := it.room.B[it.last:]
	if n > most || len(last) == 0 || len(last) != mpa.FPDULen(int(binary.BigEndian.Uint16(last))) {
		return n, 0 // too long, or after a gap or a message of several FPDUs
	}
	for wrs = wrs[:min(len(wrs), maxJoined-it.messages)]; run < len(wrs); {
		wr := &wrs[run]
		if wr.Op != it.op || payload(wr) != n {
			break
		}
		if run++; wr.Done != nil {
			break
		}
	}
	return n, run
}
