package decode

import (
	"encoding/binary"
	"fmt"

	"github.com/stag-rdma/stag/rdmap/mpa"
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
