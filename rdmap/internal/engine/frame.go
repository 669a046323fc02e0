package engine

import (
	"encoding/binary"
	"sync"

	"github.com/stag-rdma/stag/rdmap/ddp"
	"github.com/stag-rdma/stag/rdmap/internal/buf"
	"github.com/stag-rdma/stag/rdmap/mpa"
	"github.com/stag-rdma/stag/rdmap/region"
	"github.com/stag-rdma/stag/rdmap/verbs"
)

// rdmapVersion is RV of the control octet, RFC 5040 Section 4.1.
const rdmapVersion = 1

// controlOctet returns the control octet of op (RFC 5040 Section 4.1).
func controlOctet(op verbs.Opcode) uint8 { return rdmapVersion<<6 | uint8(op) }

// message is one message on its way out, or several small ones of ours (see coalesce).
//
// Ours and those of a peer's requests go the same way, and differ in what follows: a work request completes done, and
// waits for what is due in return (read); a response holds the IRD slot of its request until it has been handed down. It
// begins as that request (hold), which is made its response in place when it is carried out (executors).
//
// The payload lies either in room, in FPDUs without MSN and CRC (framed), or in head and body, where off says how much of
// it is in FPDUs. The MSN is assigned when the first FPDU is built, because messages are not sent in the order in which
// they were framed.
type message struct {
	seg    ddp.Segment // template: Tagged, Control, STag, TO, ULP, QN
	op     verbs.Opcode
	state  progress
	octets uint32 // payload octets

	framed   bool
	room     buf.Room // framed: all FPDUs; else the copy of head
	messages int      // framed: how many messages; done is that of the last one
	last     int      // framed: where in room the last message begins
	body     []byte   // not framed: payload after head, borrowed
	off      uint32   // not framed: payload octets that are in FPDUs

	// Of ours.
	done verbs.Completer
	read outRead

	// Of a peer's request, or the response to it.
	isResp bool
	req    request
	view   region.View // the pin on body
	pinned bool
}

// progress is the state of a message.
type progress uint8

const (
	// queued: a request of a peer, which waits until everything before it has been carried out. A work request is never in
	// this state. Left for executing if it may block; else it is carried out when it is built.
	queued progress = iota
	// executing: a Task carries the request out, without the lock; nothing behind it is. Left by Finish.
	executing
	// ready: it can be sent: a work request, or a response whose request a Task has carried out. Left when its first FPDU
	// is built; before that it may be withdrawn.
	ready
	// begun: some of its FPDUs are in a batch, so the rest has to follow, also if the connection fails meanwhile. Left with
	// the last one, or when its memory fails.
	begun
	// built: all of its FPDUs are in a batch. It ends when that has been written.
	built
	// broken: the memory of a Read Response has failed, so that the rest cannot be sent, and the connection ends.
	broken
)

// head returns the front part of the payload of a message that is not framed, which was copied.
func (it *message) head() []byte { return it.room.B }

// template fills the header fields of a work request.
func (it *message) template(wr *verbs.WR) {
	it.op, it.done, it.state = wr.Op, wr.Done, ready
	it.seg = ddp.Segment{Tagged: wr.Op.Tagged(), Control: controlOctet(wr.Op), QN: wr.Op.Queue()}
	it.aim(wr)
}

// aim fills the header fields that differ between messages of one opcode.
func (it *message) aim(wr *verbs.WR) {
	switch {
	case wr.Op == verbs.OpWrite:
		it.seg.STag, it.seg.TO = ddp.STag(wr.STag), wr.TO
	case wr.Op.Invalidates():
		it.seg.ULP = uint32(wr.STag)
	}
}

// framedLen returns the total length of the FPDUs of a message of n payload octets.
func framedLen(tagged bool, n, maxPayload int) int {
	hdr := headerLen(tagged)
	full, last := 0, n
	if n > maxPayload {
		full = (n - 1) / maxPayload
		last = n - full*maxPayload
	}
	return full*mpa.FPDULen(hdr+maxPayload) + mpa.FPDULen(hdr+last)
}

func headerLen(tagged bool) int {
	if tagged {
		return ddp.TaggedLen
	}
	return ddp.UntaggedLen
}

// fillFPDUs builds FPDUs in b from segments that begin with s and carry head and body; last means
// that these end the message. It returns how many FPDUs there are. A framed message is filled before its
// MSN is known, and so without CRCs; see seal.
func fillFPDUs(b []byte, s ddp.Segment, head, body []byte, maxPayload int, last, crc bool) (fpdus int) {
	hdr := mpa.HeaderLen + s.HeaderLen()
	var front untaggedHead // longer than a tagged one
	for left := len(head) + len(body); ; {
		n := min(left, maxPayload)
		left -= n
		if fpdus == 0 || left == 0 { // those between differ in their offset alone
			s.Last = last && left == 0
			s.Append(mpa.AppendHeader(front[:0], s.HeaderLen()+n))
		}
		fpdu := b[:mpa.FPDULen(hdr-mpa.HeaderLen+n)]
		b = b[len(fpdu):]
		binary.BigEndian.PutUint64(fpdu[len(fpdu)-8:], 0) // pad and CRC, and some of what comes next
		*(*untaggedHead)(fpdu) = front
		if s.Tagged {
			binary.BigEndian.PutUint64(fpdu[toAt:], s.TO)
			s.TO += uint64(n)
		} else {
			binary.BigEndian.PutUint32(fpdu[moAt:], s.MO)
			s.MO += uint32(n)
		}
		place := fpdu[hdr:][:n]
		if len(head) > 0 {
			k := copy(place, head)
			head, place = head[k:], place[k:]
		}
		body = body[copy(place, body):]
		if crc {
			mpa.WriteCRCs(fpdu)
		}
		if fpdus++; left == 0 {
			return fpdus
		}
	}
}

// frameFPDU writes everything around n octets of payload in b, the room for a whole FPDU, except the
// CRC. It is called before the payload is stored, since it clears some octets before the pad.
func frameFPDU(b []byte, s *ddp.Segment, n int) {
	binary.BigEndian.PutUint64(b[len(b)-8:], 0)
	binary.BigEndian.PutUint16(b, uint16(s.HeaderLen()+n))
	s.Append(b[:mpa.HeaderLen])
}

// fillFPDU is fillFPDUs for a message in one FPDU, without the CRC. It uses s in place: a copy would
// wait for what was just stored there.
func fillFPDU(b []byte, s *ddp.Segment, head, body []byte) {
	s.Last = true
	frameFPDU(b, s, len(head)+len(body))
	place := b[mpa.HeaderLen+s.HeaderLen():]
	copy(place[copy(place, head):], body)
}

// Where the TO of a tagged segment lies in its FPDU, where the MSN and MO of an untagged one lie, and
// the L bit in the first octet of both (RFC 5041 Sections 4.2 and 4.3).
const (
	toAt     = mpa.HeaderLen + 6
	msnAt    = mpa.HeaderLen + 10
	moAt     = mpa.HeaderLen + 14
	flagLast = 0x40
)

// seal numbers the messages that were framed together, beginning after msn, the last one of their queue, and
// writes the CRCs. It returns how many FPDUs there are. The numbers come first: a sum right after the
// store of an MSN would wait for that store.
func (it *message) seal(msn *uint32, crc bool) (fpdus int) {
	first := true
	for b := it.room.B; len(b) > 0; fpdus++ {
		if !it.seg.Tagged {
			if first {
				*msn++
			}
			binary.BigEndian.PutUint32(b[msnAt:], *msn)
			first = b[mpa.HeaderLen]&flagLast != 0
		}
		b = b[mpa.FPDULen(int(binary.BigEndian.Uint16(b))):]
	}
	if crc {
		mpa.WriteCRCs(it.room.B)
	}
	return fpdus
}

// maxCoalesced is the most small messages that are framed together: a run of them, after which a response has
// its turn.
const maxCoalesced = maxRun

// coalesce adds wr to the message posted last, if both are small and alike: what is kept, moved and settled for
// each costs more than such a message. They complete with the last, so nothing joins one that has a Completer.
func (s *Sender) coalesce(wr *verbs.WR) bool {
	if s.requests.Len() == 0 {
		return false
	}
	// Only the last one: a message that was posted between two alike must leave between them.
	it, n := s.requests.At(s.requests.Len()-1), Payload(wr)
	if it.op != wr.Op || it.done != nil || !it.framed || it.messages == maxCoalesced || Asks(wr.Op) ||
		n > verbs.CopyLimit || n > ddp.MaxPayload(it.seg.Tagged, s.MULPDU) {
		return false
	}
	at := len(it.room.B)
	if !s.arena.Extend(&it.room, mpa.FPDULen(it.seg.HeaderLen()+n)) {
		return false // its FPDUs lie together, so that they become one piece of a batch
	}
	it.done = wr.Done
	it.aim(wr)
	it.octets += uint32(n)
	it.messages++
	it.last = at
	s.Copied += len(it.room.B) - at
	fillFPDU(it.room.B[at:], &it.seg, wr.Head, wr.Body)
	return true
}

// withdraw removes the last message of those at i from the send queue.
func (s *Sender) withdraw(i int) {
	it := s.requests.At(i)
	if it.messages <= 1 {
		s.unpin(it)
		s.requests.Remove(i)
		return
	}
	gone := it.room.B[it.last:]
	it.room.B = it.room.B[:it.last]
	s.Copied -= len(gone)
	it.octets -= uint32(binary.BigEndian.Uint16(gone)) - uint32(it.seg.HeaderLen())
	it.messages--
	it.done = nil // nothing joins after the gap that is left: extend sees to that
}

// PostAll appends work requests that have passed their checks.
func (s *Sender) PostAll(wrs []verbs.WR) {
	for len(wrs) > 0 {
		if run := s.coalesceAlike(wrs); run > 0 {
			wrs = wrs[run:]
			continue
		}
		s.Post(&wrs[0])
		wrs = wrs[1:]
	}
}

// coalesceAlike is coalesce for the work requests at the front of wrs that have one length, and whose headers
// differ from that of the message posted last only in length and MSN. It returns how many there are.
// Their header is copied from that message, once.
func (s *Sender) coalesceAlike(wrs []verbs.WR) (run int) {
	if s.requests.Len() == 0 {
		return 0
	}
	it := s.requests.At(s.requests.Len() - 1)
	n, run := it.alike(wrs, min(verbs.CopyLimit, ddp.MaxPayload(false, s.MULPDU)))
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
	it.octets += uint32(run * n)
	it.messages += run
	s.Copied += run * size
	return run
}

// untaggedHead is what precedes the payload of an untagged segment in its FPDU.
type untaggedHead [mpa.HeaderLen + ddp.UntaggedLen]byte

// fillLike is fillFPDU for a Send whose header is that of another one except for the length.
func fillLike(b []byte, like *untaggedHead, wr *verbs.WR) {
	binary.BigEndian.PutUint64(b[len(b)-8:], 0) // pad and CRC, and some of what comes next
	*(*untaggedHead)(b) = *like
	binary.BigEndian.PutUint16(b, uint16(ddp.UntaggedLen+Payload(wr)))
	b = b[len(like):]
	if len(wr.Head) > 0 {
		b = b[copy(b, wr.Head):]
	}
	if len(wr.Body) > 0 {
		copy(b, wr.Body)
	}
}

// alike returns how many work requests at the front of wrs may join it after its last message
// and have the header of that message except for length and MSN. n is their payload length, which is
// the same for all and at most most.
func (it *message) alike(wrs []verbs.WR, most int) (n, run int) {
	if len(wrs) == 0 || !it.framed || it.done != nil || it.seg.Tagged || Asks(it.op) || it.op.Invalidates() {
		return 0, 0
	}
	n = Payload(&wrs[0])
	last := it.room.B[it.last:]
	if n > most || len(last) == 0 || len(last) != mpa.FPDULen(int(binary.BigEndian.Uint16(last))) {
		return n, 0 // too long, or after a gap or a message of several FPDUs
	}
	// The first with a Completer ends the run: it has to be the last one.
	for wrs = wrs[:min(len(wrs), maxCoalesced-it.messages)]; run < len(wrs); {
		wr := &wrs[run]
		if wr.Op != it.op || Payload(wr) != n {
			break
		}
		if run++; wr.Done != nil {
			break
		}
	}
	return n, run
}

// markScratch is the memory needed to mark one batch. It is pooled, so an idle connection holds none.
type markScratch struct {
	arena []byte   // the markers
	out   [][]byte // markers and the pieces of FPDUs between them
}

var markPool = sync.Pool{New: func() any { return new(markScratch) }}

// mark puts markers into the batch, whose FPDUs were built without markers and with room for their
// CRCs, and copies everything into the batch's own memory.
//
// Choice: it copies. With a piece for every 508 octets, a net.Conn would need as many writes, and the
// kernel as many entries. A peer that asks for markers has asked for a slower stream.
func (w *Work) mark(crc bool) {
	b := &w.Batch
	if b.Size() == 0 {
		return
	}
	s := markPool.Get().(*markScratch)
	if n := w.markers.InsertRoom(b.Size()); cap(s.arena) < n {
		s.arena = make([]byte, 0, n)
	}
	s.out, _ = w.markers.Insert(s.out[:0], s.arena[:0], b.Pieces(), crc)
	before := b.Size()
	b.Forget() // the pieces stay where they are until they have been copied
	for _, p := range s.out {
		b.CopyIn(p)
	}
	w.Out.Octets += uint64(b.Size() - before)
	clear(s.out)
	markPool.Put(s)
}

// startMarking makes every FPDU carry markers. It is called before the first FPDU of full operation.
func (w *Work) startMarking() { w.markers = new(mpa.Inserter) }

// alignment keeps the trailers of FPDUs in one segment of TCP each, as far as a socket allows that: a
// batch ends a segment (MSG_EOR), and so does a cut before an FPDU whose pad and CRC would otherwise
// lie in two. RFC 5044 Section 5.1 has MPA align whole FPDUs, which takes a TCP that knows about them.
// A peer that checks no CRC does not care, and neither does a stag; Linux's siw reads a trailer that is
// cut wrongly (docs/decisions.md).
type alignment struct {
	emss int // octets of a segment; 0: nothing is aligned
	at   int // octets since the last segment that we have ended
}

// before takes the next FPDU, of n octets with a trailer of the given length. It reports whether there
// has to be a cut before it. If a cut would not help, since the FPDU is longer than a segment, it
// reports false.
func (a *alignment) before(n, trailer int) bool {
	cut := a.at > 0 && severed(a.at+n, trailer, a.emss) && !severed(n, trailer, a.emss)
	if cut {
		a.at = 0
	}
	a.at += n
	return cut
}

// severed reports whether a segment ends within the last trailer octets before end.
func severed(end, trailer, emss int) bool { return end%emss > 0 && end%emss < trailer }

// addFPDUs adds r, which holds whole FPDUs and is borrowed until the batch has been written.
func (w *Work) addFPDUs(r buf.Room) {
	b := &w.Batch
	if w.alignment.emss == 0 {
		b.Add(r)
		return
	}
	from := 0
	for at := 0; at < len(r.B); {
		ulpdu := int(binary.BigEndian.Uint16(r.B[at:]))
		n := mpa.FPDULen(ulpdu)
		if w.alignment.before(n, mpa.TrailerLen(ulpdu)) {
			b.Add(r.Part(from, at))
			b.Cut()
			from = at
		}
		at += n
	}
	b.Add(r.Part(from, len(r.B)))
}
