package decode

import (
	"encoding/binary"
	"fmt"

	"github.com/stag-rdma/stag/rdmap/ddp"
	"github.com/stag-rdma/stag/rdmap/mpa"
	"github.com/stag-rdma/stag/rdmap/verbs"
)

// syncer looks for a place in a stream where an FPDU begins.
type syncer struct {
	why     error  // of octets before it
	align   int    // its stream offset modulo 4; -1: unknown
	from    uint64 // stream offset where the search began
	scanned uint64 // places before this stream offset are decided, except those in starts
	starts  []start
	crcs    bool // the FPDUs found have CRCs
}

// start is a place where an FPDU may begin.
type start struct {
	at   uint64 // stream offset
	need uint64 // stream offset up to which octets are needed to say more
}

const (
	// maxStarts bounds the places that are remembered. In octets that are not FPDUs there are a few.
	maxStarts = 8192
	// maxSync is for how many octets to look for an FPDU if nothing says that there are any.
	maxSync = 1 << 20
)

// begin starts to look for an FPDU after all octets so far.
func (s *side) begin(why error, align int) {
	s.phase, s.proved, s.astray = phaseSync, false, false
	s.missed()
	s.sync = syncer{why: why, align: align, from: s.off, scanned: s.off, starts: s.sync.starts[:0]}
}

// middle starts to look for FPDUs in a side whose beginning is not in the capture.
func (c *Conn) middle(dir Dir) {
	s, peer := &c.sides[dir], &c.sides[1-dir]
	c.noStartup()
	if c.Info.Request == nil && c.Info.Reply == nil && peer.phase != phaseFPDU && peer.phase != phaseSkip {
		c.Info.Foreign = true // until an FPDU is found
	}
	s.begin(ErrMiddle, -1)
	c.forget()
	c.settle(1 - dir)
	c.resync(dir, false)
}

// resync looks for an FPDU in the octets that a side holds, and continues there. With final, nothing more
// will come.
func (c *Conn) resync(dir Dir, final bool) {
	s := &c.sides[dir]
	at, proved := s.search(c.Info.CRC, final)
	switch {
	case proved:
		c.found(dir, at)
	case c.Info.Foreign && at-s.sync.from > maxSync:
		c.lose(dir, ErrNotMPA)
	default:
		c.drop(dir, int(at-s.off), c.excuse(s))
	}
}

// excuse says why the octets that a side holds are not decoded if the following ones are missing, or turn
// out not to continue them.
func (c *Conn) excuse(s *side) error {
	switch {
	case s.phase == phaseFPDU && c.Info.Unknown&UnknownStartup != 0:
		return fmt.Errorf("%w: no FPDU, perhaps a marker", ErrMiddle)
	case s.phase != phaseSync && s.phase != phaseSkip:
		return ErrPartial
	case c.Info.Foreign:
		return fmt.Errorf("%w: %w", s.sync.why, ErrNotMPA)
	}
	return s.sync.why
}

// found continues with the FPDU that begins at stream offset at.
func (c *Conn) found(dir Dir, at uint64) {
	s := &c.sides[dir]
	c.Info.Foreign = false
	if s.sync.crcs && c.Info.Unknown&UnknownCRC != 0 {
		c.Info.CRC = true
		c.Info.Unknown &^= UnknownCRC
	}
	c.drop(dir, int(at-s.off), s.sync.why)
	s.phase, s.proved, s.astray = phaseFPDU, true, false
	c.advance(dir)
}

// strays reports whether a side that was resumed by evidence is not at the beginning of an FPDU after all:
// no FPDU begins with these octets. This happens all the time if there are markers that the capture does not
// announce.
func (s *side) strays(b []byte) bool {
	if !s.proved || len(b) < mpa.HeaderLen {
		return false
	}
	short := mpa.FPDULen(int(binary.BigEndian.Uint16(b))) < fpduHead // whether more octets are there or not
	if !short && len(b) < fpduHead {
		return false
	}
	s.astray = short
	if !short {
		_, ok := plausible(b)
		s.astray = !ok
	}
	return s.astray
}

// search returns the stream offset where an FPDU is proved to begin or, without proof, the offset before
// which none does. Of several proofs the one that ends first counts, as it would if the octets came one by
// one.
func (s *side) search(crc, final bool) (at uint64, proved bool) {
	y := &s.sync
	best := start{need: ^uint64(0)}
	open := y.starts
	y.starts = y.starts[:0]
	for _, p := range open {
		if !final && s.end() < p.need {
			y.starts = append(y.starts, p)
		} else {
			s.weigh(p.at, crc, final, &best)
		}
	}
	for ; y.scanned+fpduHead <= s.end() && y.scanned < best.need; y.scanned++ {
		b := s.buf[y.scanned-s.off:]
		if b[2]&0x3f == 0x01 && b[3]&0xe0 == 0x40 && (y.align < 0 || y.scanned%4 == uint64(y.align)) {
			s.weigh(y.scanned, crc, final, &best)
		}
	}
	switch {
	case best.need != ^uint64(0):
		return best.at, true
	case len(y.starts) > 0:
		return y.starts[0].at, false
	}
	return y.scanned, false
}

// weigh looks for proof that an FPDU begins at stream offset at, by octets before those that best needs, and
// if so replaces best. It remembers the place if an FPDU may still begin there.
func (s *side) weigh(at uint64, crc, final bool, best *start) {
	y := &s.sync
	b := s.buf[at-s.off:]
	e, ok := weigh(b, crc)
	p := start{at, at + uint64(e.need)}
	switch {
	case !ok:
	case e.proved() || final && e.fpdus > 0 && e.bits >= hint && e.need == len(b)+fpduHead:
		if p.need < best.need {
			*best, y.crcs = p, e.good == e.fpdus
		}
	case len(y.starts) < maxStarts:
		y.starts = append(y.starts, p)
	}
}

// The evidence that an FPDU begins somewhere is counted in bits: how many bits there are as they have to be.
// Octets that are not an FPDU pass n bits by chance once in 2^n.
const (
	// proof is the evidence, in bits, that makes a boundary certain: it occurs by chance once in 2^64.
	proof = 64
	// hint is enough evidence if the stream ends exactly where the last FPDU does.
	hint = 40

	bitsTagged   = 14      // reserved bits, versions and opcode
	bitsUntagged = 11 + 32 // the same, and the queue number
	bitsRequest  = 33      // a message other than a Send has one segment: L and MO
	bitsCRC      = 32
	bitsNext     = 60 // a segment continues the one before it: STag and TO, or MSN and MO
)

// Lengths of the DDP headers (RFC 5041 Sections 4.1 and 4.2).
const (
	taggedHead   = 14
	untaggedHead = 18
)

// fpduHead is how much of an FPDU the evidence needs: the MPA and DDP headers.
const fpduHead = mpa.HeaderLen + untaggedHead

// heading is what the head of a plausible FPDU says.
type heading struct {
	n      int // octets of the FPDU
	bits   int
	tagged bool
	last   bool
	tag    uint32 // STag or MSN
	qn     uint32
	at     uint64 // TO or MO
	size   uint64 // octets of payload
}

// plausible reads fpduHead octets; ok is false if no FPDU can begin with them.
func plausible(b []byte) (h heading, ok bool) {
	control, op := b[2], b[3]
	if control&0x3f != ddp.Version || op&0xe0 != rdmapVersion<<6 {
		return h, false
	}
	be := binary.BigEndian
	size := int(be.Uint16(b))
	h.n, h.tagged, h.last = mpa.FPDULen(size), control&0x80 != 0, control&0x40 != 0
	opcode := verbs.Opcode(op & 0x1f)
	if opcode > verbs.OpAtomicWriteResponse || opcode.Tagged() != h.tagged {
		return h, false
	}
	if h.tagged {
		h.tag, h.at, h.bits = be.Uint32(b[4:]), be.Uint64(b[8:]), bitsTagged
		h.size = uint64(size - taggedHead)
		return h, size >= taggedHead
	}
	h.qn, h.tag, h.at, h.bits = be.Uint32(b[8:]), be.Uint32(b[12:]), uint64(be.Uint32(b[16:])), bitsUntagged
	h.size = uint64(size - untaggedHead)
	if !opcode.IsSend() {
		if h.bits += bitsRequest; !h.last || h.at != 0 {
			return h, false
		}
	}
	return h, size >= untaggedHead && h.qn == opcode.Queue()
}

// follows reports whether h is the segment to expect after p.
func (h *heading) follows(p *heading) bool {
	switch {
	case h.tagged != p.tagged || h.qn != p.qn:
		return false
	case !p.last:
		return h.tag == p.tag && h.at == p.at+p.size
	default:
		return !h.tagged && h.tag == p.tag+1 && h.at == 0
	}
}

// evidence walks FPDUs from one boundary to the next.
type evidence struct {
	bits  int
	fpdus int // whole ones
	good  int // of these, with the right CRC
	need  int // octets that are needed to go on
}

// proved reports whether FPDUs certainly begin there: there are two, or one with a right CRC.
func (e *evidence) proved() bool { return e.bits >= proof && (e.fpdus >= 2 || e.good > 0) }

// weigh collects the evidence that FPDUs begin at the start of b. ok is false if they do not. With crc the
// CRCs must be right.
func weigh(b []byte, crc bool) (e evidence, ok bool) {
	var before heading
	for at := 0; !e.proved(); {
		if e.need = at + fpduHead; len(b) < e.need {
			return e, true
		}
		h, ok := plausible(b[at:])
		if !ok {
			return e, false
		}
		if e.need = at + h.n; len(b) < e.need {
			return e, true
		}
		fpdu := b[at : at+h.n]
		good := mpa.UpdateCRC(0, fpdu[:h.n-mpa.CRCLen]) == mpa.ReadCRC(fpdu[h.n-mpa.CRCLen:])
		switch {
		case good:
			e.good++
			e.bits += bitsCRC
		case crc:
			return e, false
		}
		if e.fpdus > 0 && h.follows(&before) {
			e.bits += bitsNext
		}
		e.fpdus++
		e.bits += h.bits
		at, before = at+h.n, h
	}
	return e, true
}
