package rdmap

import (
	"encoding/binary"
	"math"

	"github.com/stag-rdma/stag/rdmap/ddp"
	"github.com/stag-rdma/stag/rdmap/internal/mutant"
	"github.com/stag-rdma/stag/rdmap/mpa"
	"github.com/stag-rdma/stag/rdmap/region"
	"github.com/stag-rdma/stag/rdmap/verbs"
)

// follow places the segments in b that continue the tagged message whose segment has just been placed.
// They differ only in TO, so what is looked up for the first holds for all. It stops before the last
// segment of the message, before one of another length, before anything else and before every error:
// those are for input. It returns how many octets of b it has used.
func (r *receiver) follow(df *mpa.Deframer, b []byte) (used int) {
	head, n := r.continuation(df, b)
	if head == nil || r.off.len() > 0 || mutant.UnplacedWrites {
		return 0
	}
	view, left := r.sinkOf(head, n)
	defer view.Release()
	front, to := binary.BigEndian.Uint64(b), binary.BigEndian.Uint64(b[8:])
	size, fpdus := mpa.FPDULen(ddp.TaggedLen+n), 0
	for left -= n; left >= 0; left -= n {
		if df.CRC { // else there is nothing left to look at
			if _, _, err := df.Next(b[used:]); err != nil {
				break
			}
		}
		copy(view.Bytes(), b[used+fpduHead:])
		r.ddp.Continue(n)
		used += size
		fpdus++
		to += uint64(n)
		// Length, flags, opcode and STag are the first 8 octets of an FPDU, the TO is the next.
		if next := b[used:]; len(next) < size || binary.BigEndian.Uint64(next) != front ||
			binary.BigEndian.Uint64(next[8:]) != to || !view.Forward(n) {
			break
		}
	}
	r.followed(fpdus, fpdus*n)
	return used
}

// continuation returns the header of the FPDU at the start of b, and the length of its payload, if the
// FPDU is complete and continues the open message; otherwise nil.
func (r *receiver) continuation(df *mpa.Deframer, b []byte) (head []byte, payload int) {
	u, n, ok := df.Peek(b)
	if !ok || mpa.FPDULen(n) > len(b) || !r.ddp.Continues(u) {
		return nil, 0
	}
	return u[:ddp.TaggedLen], n - ddp.TaggedLen
}

// sinkOf returns the place of the n octets of the segment with this header, and how many octets may be
// placed beginning there. If that is less than n, the segment has to be handled like any other.
func (r *receiver) sinkOf(head []byte, n int) (v region.View, left int) {
	var s ddp.Segment
	s.Parse(head)
	need, left := region.RemoteWrite, math.MaxInt32 // more than is ever staged
	if r.now == verbs.OpReadResponse {
		rd, _ := r.up.head()
		off := s.TO - rd.sinkTO
		if region.STag(s.STag) != rd.sink || off > uint64(rd.size) {
			return v, -1
		}
		need, left = region.ReadSink, int(min(uint64(rd.size)-off, math.MaxInt32))
	}
	v, err := r.table.Lookup(region.STag(s.STag), s.TO, uint32(n), need)
	if err != nil || v.Guarded() || v.WrittenThrough() {
		return v, -1
	}
	return v, left
}

// followed counts segments that were placed without input.
func (r *receiver) followed(fpdus, octets int) {
	r.in.fpdus += uint64(fpdus)
	if r.now == verbs.OpReadResponse {
		r.in.readOctets += uint64(octets)
		r.readGot += uint64(octets)
		return
	}
	r.in.writeOctets += uint64(octets)
}
