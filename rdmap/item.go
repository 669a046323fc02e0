package rdmap

import (
	"encoding/binary"

	"github.com/stag-rdma/stag/rdmap/ddp"
	"github.com/stag-rdma/stag/rdmap/internal/buf"
	"github.com/stag-rdma/stag/rdmap/mpa"
	"github.com/stag-rdma/stag/rdmap/region"
	"github.com/stag-rdma/stag/rdmap/verbs"
)

// rdmapVersion is RV of the control octet, RFC 5040 Section 4.1.
const rdmapVersion = 1

func controlOctet(op verbs.Opcode) uint8 { return rdmapVersion<<6 | uint8(op) }

// item is one message on its way out, or several small ones; see join. Its payload lies either in
// room, in FPDUs without MSN and CRC (framed), or in head and body, where off says how much of it is
// in FPDUs. The MSN is assigned when the first FPDU is built.
type item struct {
	seg      ddp.Segment // template: Tagged, Control, STag, TO, ULP, QN
	op       verbs.Opcode
	framed   bool
	begun    bool     // an FPDU of it has been built
	n        uint32   // payload octets
	messages int      // framed: how many messages; done is that of the last one
	last     int      // framed: where in room the last message begins
	room     buf.Room // framed: all FPDUs; else the copy of head
	body     []byte   // not framed: payload after head, borrowed
	off      uint32   // not framed: payload octets that are in FPDUs
	whole    bool     // all FPDUs have been built
	done     verbs.Completer
	read     outRead     // requests: what is due in return
	req      request     // isResp: the request that is answered
	executed bool        // isResp: the response is here
	isResp   bool        // holds an IRD slot
	view     region.View // isResp: the pin on body
	pinned   bool
	broken   bool // isResp: the memory failed halfway, and the rest cannot be sent
}

// head returns the front part of the payload of an item that is not framed, which was copied.
func (it *item) head() []byte { return it.room.B }

// template fills the header fields of a work request.
func (it *item) template(wr *verbs.WR) {
	it.op, it.done = wr.Op, wr.Done
	it.seg = ddp.Segment{Tagged: wr.Op.Tagged(), Control: controlOctet(wr.Op), QN: wr.Op.Queue()}
	it.aim(wr)
}

// aim fills the header fields that differ between messages of one opcode.
func (it *item) aim(wr *verbs.WR) {
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
// that these end the message. It returns how many FPDUs there are. A framed item is filled before its
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

// seal numbers the messages of a framed item, beginning after msn, the last one of their queue, and
// writes the CRCs. It returns how many FPDUs there are. The numbers come first: a sum right after the
// store of an MSN would wait for that store.
func (it *item) seal(msn *uint32, crc bool) (fpdus int) {
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
