package rdmap

import (
	"encoding/binary"

	"github.com/stag-rdma/stag/rdmap/ddp"
	"github.com/stag-rdma/stag/rdmap/internal/mutant"
	"github.com/stag-rdma/stag/rdmap/mpa"
)

// maxJoined is how many small messages one item holds at most: a run of them, after
// which a response has its turn.
const maxJoined = maxRun

// join makes wr, if it is a small message like the one posted last, a part of the same
// item: what is kept, moved and settled per item costs more than such a message does. An
// item completes with its last message, so nothing joins one that has a Completer.
func (s *sender) join(wr *WR) bool {
	if s.sq.len() == 0 || mutant.SubmissionOrder {
		return false
	}
	it, n := s.sq.at(s.sq.len()-1), wr.size()
	if it.op != wr.Op || it.done != nil || !it.framed || it.messages == maxJoined || wr.Op.asks() ||
		n > CopyLimit || n > ddp.MaxPayload(it.seg.Tagged, s.mulpdu) {
		return false
	}
	at := len(it.room.b)
	if !s.arena.extend(&it.room, mpa.FPDULen(it.seg.HeaderLen()+n)) {
		return false
	}
	it.done = wr.Done
	it.aim(wr)
	it.n += uint32(n)
	it.messages++
	it.last = at
	s.copied += len(it.room.b) - at
	fillFPDU(it.room.b[at:], &it.seg, wr.Head, wr.Body)
	return true
}

// withdraw takes the last message of the item at i of the send queue back.
func (s *sender) withdraw(i int) {
	it := s.sq.at(i)
	if it.messages <= 1 {
		s.release(it)
		s.sq.remove(i)
		return
	}
	gone := it.room.b[it.last:]
	it.room.b = it.room.b[:it.last]
	s.copied -= len(gone)
	it.n -= uint32(binary.BigEndian.Uint16(gone)) - uint32(it.seg.HeaderLen())
	it.messages--
	it.done = nil // nothing joins behind the gap that is left: extend sees to that
}
