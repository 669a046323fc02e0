package decode

import "github.com/stag-rdma/stag/rdmap/mpa"

// phase is what the next octets of a side of a connection may be.
type phase uint8

const (
	// phaseStartup: nothing decoded yet; a startup frame is due. Ends with the frame, or with
	// octets that cannot begin one.
	phaseStartup phase = iota
	// phaseHold: this side has sent its startup frame and perhaps more; what follows cannot be decoded
	// before the peer's frame says whether CRCs are on. Ends when the peer's startup is settled, either way.
	phaseHold
	// phaseFPDU: FPDUs until the stream ends (RFC 5044 Section 4).
	phaseFPDU
	// phaseSkip: octets up to side.due belong to an FPDU that is not whole in the capture. Ends there, at
	// the boundary that follows from its length.
	phaseSkip
	// phaseSync: looking for the next FPDU boundary. Ends when one is proved.
	phaseSync
	// phaseRecord: records of RPC over TCP until the stream ends. This is not MPA.
	phaseRecord
	// phaseLost: octets can be counted, not decoded; side.why says why. Never ends.
	phaseLost
)

// side is one direction of a connection: octets that are not decoded yet, and how to decode them.
type side struct {
	phase  phase
	why    error // phaseLost
	buf    []byte
	off    uint64        // stream offset of buf[0]
	from   spans         // which packet brought what, for the octets of buf
	marks  *mpa.Deframer // phaseFPDU with markers: the position in the stream; else nil
	queues [4]assembly
	closed bool

	joined bool   // the beginning of the stream is not in the capture
	due    uint64 // phaseSkip: where the next FPDU begins
	sync   syncer // phaseSync
	proved bool   // phaseFPDU: where FPDUs begin was found by evidence, after the last hole
	astray bool   // proved, but it has turned out to be wrong
}

// end returns the stream offset after the last octet received.
func (s *side) end() uint64 { return s.off + uint64(len(s.buf)) }

// add appends octets that came with packet at.
func (s *side) add(b []byte, at Stamp) {
	s.buf = append(s.buf, b...)
	s.from.add(s.end(), at)
}

// consume drops the first n octets.
func (s *side) consume(n int) {
	s.buf = append(s.buf[:0], s.buf[n:]...)
	s.off += uint64(n)
	s.from.drop(s.off)
}

// lose gives up decoding this side.
func (s *side) lose(why error) {
	if s.phase != phaseLost {
		s.phase, s.why = phaseLost, why
	}
}
