package decode

import (
	"encoding/binary"
	"fmt"

	"github.com/stag-rdma/stag/rdmap/mpa"
)

// Join says that the first octets of direction dir are not in the capture. Call it before the first Octets.
// A startup frame is still looked for, and failing that, FPDUs.
func (c *Conn) Join(dir Dir) {
	if s := &c.sides[dir]; s.off == 0 && len(s.buf) == 0 {
		s.joined = true
	}
}

// Hole says that the next n octets of direction dir are not in the capture. If the FPDU in which they begin
// shows where the next one begins, decoding continues there; otherwise where an FPDU can be proved to begin.
func (c *Conn) Hole(dir Dir, n int, at Stamp) {
	s := &c.sides[dir]
	if s.closed {
		return
	}
	next, known := s.boundary()
	if s.phase == phaseStartup {
		c.noStartup()
	}
	c.drop(dir, len(s.buf), c.excuse(s))
	s.off += uint64(n)
	ev := c.begin(KindUndecoded, dir, at, at)
	ev.Offset, ev.Missing, ev.Err = s.off, n, fmt.Errorf("%w: %d", ErrHole, n)
	c.visit(ev)
	c.Info.Unknown |= UnknownHole
	c.forget()
	switch {
	case s.phase == phaseLost:
		s.why = ErrHole
	case s.phase == phaseRecord:
		s.lose(ErrHole)
	case s.marks != nil:
		s.lose(fmt.Errorf("%w, between markers", ErrHole))
	case known && next >= s.off:
		s.missed()
		s.phase, s.due, s.sync.why = phaseSkip, next, ErrHole
		c.skip(dir)
	case known:
		s.begin(ErrHole, int(next%4))
	case s.phase == phaseSync:
		s.begin(s.sync.why, s.sync.align)
	default:
		s.begin(ErrHole, -1)
	}
	c.settle(1 - dir)
}

// boundary returns where the FPDU in progress ends, or where the one that is due begins.
func (s *side) boundary() (next uint64, known bool) {
	switch {
	case s.phase == phaseSkip:
		return s.due, true
	case s.phase == phaseFPDU && len(s.buf) >= mpa.HeaderLen:
		return s.off + uint64(mpa.FPDULen(int(binary.BigEndian.Uint16(s.buf)))), true
	}
	return s.off, s.phase == phaseFPDU
}

// skip leaves out the rest of an FPDU of which octets are missing.
func (c *Conn) skip(dir Dir) {
	s := &c.sides[dir]
	c.drop(dir, int(min(s.due-s.off, uint64(len(s.buf)))), s.sync.why)
	if s.off == s.due {
		s.phase = phaseFPDU
		c.advance(dir)
	}
}

// missed says that messages of this side are not in the capture, or not whole.
func (s *side) missed() {
	for i := range s.queues {
		s.queues[i] = assembly{missed: true}
	}
}

// forget drops what depends on knowing everything that was sent.
func (c *Conn) forget() {
	c.rpc.vague = true
	c.log.lose()
}

// noStartup notes that the startup is not in the capture.
func (c *Conn) noStartup() {
	c.Info.Unknown |= UnknownStartup | UnknownPast
	if c.Info.Request == nil {
		c.Info.Unknown |= UnknownInitiator
	}
	if !c.Info.CRC {
		c.Info.Unknown |= UnknownCRC
	}
}

// guessInitiator takes the caller of the first RPC for the initiator if the capture does not show who that
// is.
func (c *ConnInfo) guessInitiator(r *RPC, caller Dir) {
	if c.Unknown&UnknownInitiator == 0 || c.Request != nil || c.guessed || r.Name == "" {
		return
	}
	c.guessed, c.Initiator = true, caller
	if r.Prog == progCallback {
		c.Initiator = 1 - caller
	}
}
