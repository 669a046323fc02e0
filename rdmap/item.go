package rdmap

import (
	"github.com/stag-rdma/stag/rdmap/ddp"
	"github.com/stag-rdma/stag/rdmap/mpa"
	"github.com/stag-rdma/stag/rdmap/region"
)

// rdmapVersion is RV of the control octet, RFC 5040 Section 4.1.
const rdmapVersion = 1

func controlOctet(op Opcode) uint8 { return rdmapVersion<<6 | uint8(op) }

// item is one message on its way out. Its payload lies either in room, spread over
// the places it has in the FPDUs to be (framed), or in head and body, where cut
// knows how far it has gone. The MSN is assigned when the first FPDU is built.
type item struct {
	seg      ddp.Segment // template: Tagged, Control, STag, TO, ULP, QN
	op       Opcode
	framed   bool
	begun    bool          // an FPDU of it has been built
	n        uint32        // payload octets
	room     room          // framed: all FPDUs; else the copy of head
	body     []byte        // not framed: payload behind head, borrowed
	cut      ddp.Segmenter // not framed: position, once begun
	done     Completer
	read     outRead     // OpReadRequest: what is due in return
	req      request     // isResp: what is answered
	executed bool        // isResp: the response is here
	isResp   bool        // holds an IRD slot
	view     region.View // isResp: the pin on body
	pinned   bool
	broken   bool // isResp: the memory failed half-way, the rest cannot be sent
}

// head returns the copied front part of the payload of an item that is not framed.
func (it *item) head() []byte { return it.room.b }

// template fills the header fields of a work request.
func (it *item) template(wr *WR) {
	it.op, it.done = wr.Op, wr.Done
	it.seg = ddp.Segment{Tagged: wr.Op.Tagged(), Control: controlOctet(wr.Op), QN: wr.Op.Queue()}
	switch {
	case wr.Op == OpWrite:
		it.seg.STag, it.seg.TO = ddp.STag(wr.STag), wr.TO
	case wr.Op.Invalidates():
		it.seg.ULP = uint32(wr.STag)
	}
}

// framedLen returns the octets of all FPDUs of a message of n payload octets.
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

// fill copies head and body into the payload places of a framed item.
func (it *item) fill(head, body []byte, maxPayload int) {
	hdr := mpa.HeaderLen + it.seg.HeaderLen()
	b := it.room.b
	for left := int(it.n); ; {
		n := min(left, maxPayload)
		place := b[hdr : hdr+n]
		k := copy(place, head)
		head = head[k:]
		body = body[copy(place[k:], body):]
		left -= n
		if left == 0 {
			return
		}
		b = b[mpa.FPDULen(hdr-mpa.HeaderLen+n):]
	}
}

// seal writes the headers and trailers of a framed item's FPDUs and returns how
// many there are.
func (it *item) seal(crc bool) (fpdus int) {
	b := it.room.b
	for {
		s, _, n, ok := it.cut.Next()
		if !ok {
			return fpdus
		}
		size := mpa.FPDULen(s.HeaderLen() + n)
		finishFPDU(b[:size:size], &s, n, crc)
		b = b[size:]
		fpdus++
	}
}

// finishFPDU writes length, header, pad and CRC around the n payload octets that
// are in their place in b, a whole FPDU.
func finishFPDU(b []byte, s *ddp.Segment, n int, crc bool) {
	hdr := s.HeaderLen()
	s.Append(b[:mpa.HeaderLen])
	mpa.FinishFPDU(b[:mpa.HeaderLen+hdr+n], 0, crc)
}
