package decode

import (
	"encoding/binary"
	"fmt"

	"github.com/stag-rdma/stag/rdmap/mpa"
)

// A Conn decodes one connection: octets of both directions go in, in stream order for each direction, and
// events come out. It reads no clock and does no I/O. The zero value is not usable; see [NewConn].
type Conn struct {
	Info *ConnInfo // who and what; the caller may set the addresses and the ID. It outlives the Conn in reports

	opt   Options
	sides [2]side
	ev    Event // reused for every event, as are the three layers every FPDU has
	fp    FPDU
	ddp   DDP
	rdmap RDMAP

	scratch []byte // a copy of an FPDU with markers, to squeeze them out
	visit   func(*Event)
	rpc     *rpcState
	log     commitState
}

// NewConn returns the machine of a connection of which nothing has been seen. visit is called for
// every event; it borrows the event. It panics with the error of opt.Check.
func NewConn(opt *Options, visit func(*Event)) *Conn {
	c := &Conn{Info: new(ConnInfo), opt: opt.withDefaults(), visit: visit}
	c.rpc = newRPCState(c.opt, &budget{left: c.opt.MaxPlaced})
	c.Info.ULP = c.opt.ULP
	return c
}

// Octets takes the next octets of direction dir, which came in packet at. It borrows b.
func (c *Conn) Octets(dir Dir, b []byte, at Stamp) {
	s := &c.sides[dir]
	if len(b) == 0 || s.closed {
		return
	}
	if s.phase == phaseLost {
		c.undecoded(dir, b, s.off, at, at, s.why)
		s.off += uint64(len(b))
		return
	}
	c.overlong(1 - dir)
	s.add(b, at)
	switch s.phase {
	case phaseRecord:
		c.records(dir)
	case phaseSkip:
		c.skip(dir)
	case phaseSync:
		c.resync(dir, false)
	default:
		c.advance(dir)
	}
	if s.phase == phaseHold && len(s.buf) > c.opt.MaxEarly {
		c.lose(dir, fmt.Errorf("%w: more than %d", ErrNoReply, c.opt.MaxEarly))
	}
	c.Info.Held[dir] = len(s.buf)
}

// holds is about memory, as flow.holds.
func (c *Conn) holds() (n int) {
	const call = 1 << 10 // with the memory that it offers
	for i := range c.sides {
		s := &c.sides[i]
		n += cap(s.buf) + 40*cap(s.from) + 16*cap(s.sync.starts) + call*len(c.rpc.calls[i].order)
		for q := range s.queues {
			n += cap(s.queues[q].buf)
		}
	}
	return n + cap(c.scratch)
}

// Conflict reports that n octets of b, which came in packet at, were given to Octets before with other contents. b
// begins old octets before the next one of direction dir.
func (c *Conn) Conflict(dir Dir, n int, b []byte, old int, at Stamp) {
	s := &c.sides[dir]
	if s.closed {
		return
	}
	ev := c.begin(KindUndecoded, dir, at, at)
	ev.Offset, ev.Again, ev.Err = s.end()-uint64(old), b, fmt.Errorf("%w: %d", ErrConflict, n)
	c.visit(ev)
}

// Close ends direction dir: by FIN or, with reset, by RST. What is left of it is reported. Calls after the
// first do nothing.
func (c *Conn) Close(dir Dir, reset bool, at Stamp) {
	s := &c.sides[dir]
	if s.closed {
		return
	}
	c.flush(dir)
	s.closed = true
	ev := c.begin(KindClose, dir, at, at)
	ev.Offset, ev.Reset = s.off, reset
	c.visit(ev)
	c.settle(1 - dir)
	if c.closed() {
		c.rpc.release()
	}
}

// closed reports whether both sides have ended their streams.
func (c *Conn) closed() bool { return c.sides[0].closed && c.sides[1].closed }

// Finish ends the capture: what is left is reported, and memory is released.
func (c *Conn) Finish() {
	for dir := range Dir(2) {
		if !c.sides[dir].closed {
			c.flush(dir)
			c.sides[dir].closed = true
		}
	}
	c.rpc.release()
}

// flush reports what a side could not decode, when nothing more will come.
func (c *Conn) flush(dir Dir) {
	s := &c.sides[dir]
	c.overlong(dir)
	if s.phase == phaseSync {
		c.resync(dir, true)
	}
	if s.phase == phaseHold {
		c.lose(dir, ErrNoReply)
	} else {
		c.lose(dir, c.excuse(s))
	}
	for i := range s.queues {
		s.queues[i] = assembly{}
	}
}

// lose gives up decoding a side and reports the octets it holds.
func (c *Conn) lose(dir Dir, why error) {
	s := &c.sides[dir]
	s.lose(why)
	c.drop(dir, len(s.buf), why)
	s.buf, s.from, s.sync = nil, nil, syncer{}
}

// drop reports the first n octets that a side holds as not decoded.
func (c *Conn) drop(dir Dir, n int, why error) {
	if s := &c.sides[dir]; n > 0 {
		c.undecoded(dir, s.buf[:n], s.off, s.from.find(s.off), s.from.find(s.off+uint64(n)-1), why)
		s.consume(n)
	}
}

// advance decodes as much of a side as it can.
func (c *Conn) advance(dir Dir) {
	s := &c.sides[dir]
	if s.phase == phaseStartup {
		c.startup(dir)
	}
	n := 0
	for s.phase == phaseFPDU {
		used := c.fpdu(dir, n)
		if used == 0 {
			break
		}
		n += used
	}
	if n > 0 {
		s.consume(n)
	}
	switch {
	case s.phase == phaseLost:
		c.lose(dir, s.why)
	case s.phase == phaseFPDU && s.astray:
		s.begin(s.sync.why, -1)
		c.resync(dir, false)
	}
}

// begin returns the event, emptied, with the fields every event has.
func (c *Conn) begin(kind Kind, dir Dir, first, last Stamp) *Event {
	c.ev = Event{
		Kind: kind, Conn: c.Info, Dir: dir,
		Frame: last.Frame, First: first.Frame, Time: last.Time,
	}
	return &c.ev
}

// frame returns an event about the n octets of a side's buffer from index at.
func (c *Conn) frame(kind Kind, dir Dir, at, n int) *Event {
	s := &c.sides[dir]
	off := s.off + uint64(at)
	ev := c.begin(kind, dir, s.from.find(off), s.from.find(off+uint64(n)-1))
	ev.Offset, ev.Len, ev.Raw = off, n, s.buf[at:at+n]
	return ev
}

// undecoded reports octets that will not be decoded.
func (c *Conn) undecoded(dir Dir, b []byte, off uint64, first, last Stamp, why error) {
	ev := c.begin(KindUndecoded, dir, first, last)
	ev.Offset, ev.Len, ev.Raw, ev.Err = off, len(b), b, why
	c.visit(ev)
}

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
