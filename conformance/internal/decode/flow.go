package decode

import (
	"bytes"
	"net/netip"
	"slices"

	"github.com/stag-rdma/stag/internal/list"
)

// flowKey names a TCP connection, whatever the direction of a packet: the ends in ascending order.
type flowKey struct{ a, b netip.AddrPort }

// flow is a connection of a capture: two streams of TCP to put in order, and the machine they feed.
type flow struct {
	conn    *Conn
	streams [2]stream
	rc      *rcConn // in their place; nil with TCP

	place list.Node[flow] // in Capture.order
	held  int             // of Capture.held
}

// holds returns the octets of memory that a peer can make the flow hold, in round figures.
func (f *flow) holds() (n int) {
	if f.rc != nil {
		return f.rc.holds()
	}
	for i := range f.streams {
		n += f.streams[i].held + cap(f.streams[i].seen.b)
	}
	return n + f.conn.holds()
}

// stream is one direction of a flow.
type stream struct {
	assembler
	isn    uint32 // of the SYN, if one was seen
	syn    bool
	fin    bool // a FIN was seen
	finAt  Stamp
	finSeq uint32 // its number

	acked   bool
	expect  uint32 // what the peer has acknowledged, if acked is set
	ackedAt Stamp
	waited  int // packets since the peer acknowledged octets that are missing
	latest  int // of the packets whose octets were delivered, the one captured last
	flow    *flow
	dir     Dir
}

var _ sink = (*stream)(nil)

func (s *stream) octets(b []byte, at Stamp) {
	s.latest = max(s.latest, at.Frame)
	s.flow.conn.Octets(s.dir, b, at)
}

func (s *stream) hole(n int, at Stamp) { s.flow.conn.Hole(s.dir, n, at) }

func (s *stream) conflict(n int, b []byte, old int, at Stamp) {
	s.flow.conn.Conflict(s.dir, n, b, old, at)
}

// dirOf returns the direction of a packet from src.
func (f *flow) dirOf(src netip.AddrPort) Dir {
	if src == f.conn.Info.Opener {
		return FromOpener
	}
	return FromAccepter
}

// reopens reports whether seg is the SYN of another connection between the same ends.
func (f *flow) reopens(seg *tcpSegment) bool {
	if !seg.syn || seg.ack {
		return false
	}
	s := &f.streams[f.dirOf(seg.src)]
	return s.syn && s.isn != seg.seq || !s.syn && s.synced && s.first != seg.seq+1
}

// packet takes one TCP segment of the flow.
func (f *flow) packet(seg *tcpSegment, at Stamp) {
	dir := f.dirOf(seg.src)
	s := &f.streams[dir]
	seq := seg.seq
	if seg.syn {
		s.syn, s.isn = true, seq
		seq++
		s.sync(seq)
	}
	if seg.syn && seg.ack {
		f.streams[1-dir].sync(seg.acked)
	}
	if seg.ack {
		f.streams[1-dir].acknowledged(seg.acked, at)
	}
	if seg.rst {
		f.pump(true)
		f.conn.Close(dir, true, at)
		return
	}
	if !s.synced && len(seg.payload) > 0 {
		f.conn.Join(dir)
	}
	f.payload(s, seg, seq, at)
	if seg.missing > 0 {
		f.conn.Info.Unknown |= UnknownTruncated
	}
	s.missing(seg.missing, at, s)
	if seg.fin && !s.fin {
		s.fin, s.finAt, s.finSeq = true, at, seq+uint32(len(seg.payload)+seg.missing)
	}
	f.pump(false)
	f.closeFinished()
}

// closeFinished ends the directions that are delivered up to their FIN.
func (f *flow) closeFinished() {
	for dir := range f.streams {
		if s := &f.streams[dir]; s.fin && len(s.early) == 0 && s.untilFIN() <= 0 {
			f.conn.Close(Dir(dir), false, s.finAt)
		}
	}
}

// untilFIN returns how many octets before the FIN have not been seen.
func (s *stream) untilFIN() int {
	if !s.based() {
		return 0
	}
	return seqDiff(s.finSeq, s.next)
}

// unseen returns how many octets at the end of the stream were sent and not seen, and the packet that says
// so. The last octet acknowledged may be a FIN.
func (s *stream) unseen() (n int, at Stamp) {
	switch {
	case s.fin:
		n, at = s.untilFIN(), s.finAt
	case s.acked:
		if n, at = seqDiff(s.expect, s.next), s.ackedAt; n == 1 {
			n = 0
		}
	}
	if n > maxWindow { // no TCP sends so far ahead
		n = 0
	}
	return n, at
}

// end reports what is left when nothing more will come.
func (f *flow) end() {
	if f.rc != nil {
		f.rc.end()
		return
	}
	f.pump(true)
	for i := range f.streams {
		s, peer := &f.streams[i], &f.streams[1-i]
		if n, _ := s.unseen(); s.latest == 0 && peer.latest > 0 && (n > 0 || !s.syn && !s.acked) {
			f.conn.Info.Unknown |= UnknownSide
		}
	}
	for i := range f.streams {
		s := &f.streams[i]
		if n, at := s.unseen(); n > 0 {
			s.skip(s.next+uint32(n), at, s)
		}
	}
	f.closeFinished()
	f.conn.Finish()
}

// A segment acknowledges what its sender had received by then, and may answer it. So it waits until the
// acknowledged octets of the other direction have been delivered: the events of a connection come in the
// order in which things were sent, even if the packets were captured in a different order.

// patience is for how many packets of a flow to wait for octets that the receiver has acknowledged. The
// receiver has them, so the capture lacks them, unless it is only slightly out of order.
const patience = 128

// payload takes the octets of a segment.
func (f *flow) payload(s *stream, seg *tcpSegment, seq uint32, at Stamp) {
	b := seg.payload
	now, later := s.place(seq, b)
	known := now && seqDiff(seq+uint32(len(b)), s.next) <= 0
	answer := seg.ack && f.streams[1-s.dir].lacks(seg.acked)
	switch {
	case known, now && !answer && f.calm():
		s.deliver(seq, b, at, s)
	case now, later:
		e := earlyData{seq: seq, b: b, at: at}
		if seg.ack {
			e.ack, e.answers, e.ahead = seg.acked, true, answer
		}
		s.keep(e)
	}
}

// calm reports whether nothing waits in either direction.
func (f *flow) calm() bool { return len(f.streams[0].early)+len(f.streams[1].early) == 0 }

// acknowledged takes the acknowledgement that a packet of the peer carries. If nothing else shows where the
// octets begin that the capture should hold, the first acknowledgement does.
func (s *stream) acknowledged(ack uint32, at Stamp) {
	if !s.acked && !s.synced {
		s.next = ack
	}
	if !s.acked || seqDiff(ack, s.expect) > 0 {
		s.acked, s.expect, s.ackedAt = true, ack, at
	}
}

// based reports whether it is known where the octets begin that the capture should hold.
func (s *stream) based() bool { return s.synced || s.acked }

// lacks reports whether some octets that ack acknowledges have not been delivered.
func (s *stream) lacks(ack uint32) bool {
	n := seqDiff(ack, s.next)
	if s.fin && s.finSeq == s.next {
		n-- // the FIN has a number of its own
	}
	return s.based() && n > 0 && n <= maxWindow
}

// wait counts a packet that came while acknowledged octets were missing.
func (s *stream) wait() {
	if s.acked && s.lacks(s.expect) {
		s.waited++
	} else {
		s.waited = 0
	}
}

// hopeless reports whether the missing octets should be given up.
func (s *stream) hopeless() bool { return s.waited > patience || s.held > s.limit }

// pump delivers the pieces that need not wait any more; with all set, every piece.
func (f *flow) pump(all bool) {
	for i := range f.streams {
		f.streams[i].wait()
	}
	for !f.calm() {
		if s := f.first(); s != nil {
			f.disorder(s)
			s.shift(s)
			continue
		}
		if !all && !f.streams[0].hopeless() && !f.streams[1].hopeless() {
			return
		}
		f.giveUp()
	}
}

// disorder notes that the first piece that s has kept was captured before the octets that it acknowledges.
func (f *flow) disorder(s *stream) {
	if e := s.early[0]; e.ahead && f.streams[1-s.dir].latest > e.at.Frame {
		f.conn.Info.Unknown |= UnknownOrder
	}
}

// answers reports whether the first piece that s has kept has to wait for the other direction.
func (f *flow) answers(s *stream) bool {
	e := s.early[0]
	return e.answers && f.streams[1-s.dir].lacks(e.ack)
}

// first returns the direction whose first piece should be delivered next: one that need not wait, and was
// captured before the other one. If each waits for the other, the one captured later was sent again, with a
// newer acknowledgement than the first time, and goes first. It returns nil if there is none.
func (f *flow) first() *stream {
	a, b := &f.streams[0], &f.streams[1]
	switch {
	case !a.ready() && !b.ready():
		return nil
	case !a.ready():
		a, b = b, a
	case b.ready() && b.early[0].at.Frame < a.early[0].at.Frame:
		a, b = b, a
	}
	switch {
	case !f.answers(a):
		return a
	case b.ready():
		return b
	}
	return nil
}

// giveUp ends the wait for the octets that have been missing for longest: those before a piece, or else
// those that the first piece of the other direction acknowledges.
func (f *flow) giveUp() {
	a, b := &f.streams[0], &f.streams[1]
	if !a.gap() || b.gap() && b.since() < a.since() {
		a, b = b, a
	}
	if a.gap() {
		a.skip(a.early[0].seq, a.early[0].at, a)
		return
	}
	if len(b.early) == 0 {
		a, b = b, a
	}
	a.skip(b.early[0].ack, b.early[0].at, a)
}

// assembler puts the payload octets of one direction of a TCP connection into order. It keeps copies of what
// arrives early, up to a limit, and drops what it has seen (retransmissions, keep-alive probes) after
// comparing it. It has no clock: its owner decides when to give up a hole.
//
// Sequence numbers are compared as signed differences, so streams may pass 2^32.
type assembler struct {
	synced bool   // next is known
	first  uint32 // sequence number of the first octet, if synced is set
	next   uint32 // sequence number of the next octet to deliver
	early  []earlyData
	held   int // octets in early, with earlyCost for each piece
	limit  int // limit of held octets
	seen   history
}

// earlyData is payload that arrived before the octets that precede it.
type earlyData struct {
	seq uint32
	b   []byte
	at  Stamp

	ack     uint32 // what the segment acknowledges, if answers is set
	answers bool
	ahead   bool // it was captured before some octets that it acknowledges
}

// earlyCost is what keeping a piece costs besides its octets, so that pieces of one octet do not cost much
// more than the limit says, in memory or in time to sort them.
const earlyCost = 256

// maxWindow is the largest window of TCP in octets (RFC 7323 Section 2.3).
const maxWindow = 1 << 30

// sink receives octets in order. hole reports that n octets before the next ones are not in the capture, and
// conflict that n octets of b, which begins old octets before the next one, were there before with other contents.
type sink interface {
	octets(b []byte, at Stamp)
	hole(n int, at Stamp)
	conflict(n int, b []byte, old int, at Stamp)
}

// seqDiff returns a-b in sequence space.
func seqDiff(a, b uint32) int { return int(int32(a - b)) }

// sync sets the sequence number of the first octet, from a SYN or what acknowledges it.
func (a *assembler) sync(next uint32) {
	if !a.synced {
		a.synced, a.first, a.next = true, next, next
	}
}

// place says when the payload b of a segment with sequence number seq is due: now if it, or what is left of
// it, comes next; later if octets before it are missing; never if no TCP sends so far ahead. A direction
// whose SYN is not in the capture begins with the first segment seen.
func (a *assembler) place(seq uint32, b []byte) (now, later bool) {
	if len(b) == 0 {
		return false, false
	}
	a.sync(seq)
	ahead := seqDiff(seq, a.next)
	return ahead <= 0, ahead > 0 && ahead <= maxWindow
}

// deliver hands over the part of b that is new, and compares the rest with what was there before. The segment must
// not begin after a hole.
func (a *assembler) deliver(seq uint32, b []byte, at Stamp, to sink) {
	old := seqDiff(a.next, seq)
	if old < 0 { // exactly 2^31 away, neither old nor new
		return
	}
	if n := a.seen.differ(b[:min(old, len(b))], old); n > 0 && len(b) > 1 { // a keep-alive probe has one arbitrary octet
		to.conflict(n, b[:min(old, len(b))], old, at)
	}
	if old >= len(b) {
		return
	}
	b = b[old:]
	a.next += uint32(len(b))
	a.seen.add(b)
	to.octets(b, at)
}

// keep stores a piece, with a copy of its octets, in sequence order. Of two segments with the same number
// the longer one matters, and deliver sees to that; an exact duplicate is not kept.
func (a *assembler) keep(p earlyData) {
	i, found := slices.BinarySearchFunc(a.early, p.seq, func(e earlyData, s uint32) int {
		return seqDiff(e.seq, s)
	})
	if found && bytes.HasPrefix(a.early[i].b, p.b) {
		return
	}
	p.b = slices.Clone(p.b)
	a.early = slices.Insert(a.early, i, p)
	a.held += len(p.b) + earlyCost
}

// ready reports whether the first piece kept need not wait any more for octets before it.
func (a *assembler) ready() bool { return len(a.early) > 0 && seqDiff(a.early[0].seq, a.next) <= 0 }

// gap reports whether octets are missing before the first piece kept.
func (a *assembler) gap() bool { return len(a.early) > 0 && !a.ready() }

// since returns the packet of the kept pieces that was captured first.
func (a *assembler) since() int {
	first := a.early[0].at.Frame
	for _, e := range a.early[1:] {
		first = min(first, e.at.Frame)
	}
	return first
}

// shift delivers the first piece kept, which is ready.
func (a *assembler) shift(to sink) {
	e := a.early[0]
	a.early[0] = earlyData{}
	a.early = a.early[1:]
	a.held -= len(e.b) + earlyCost
	a.deliver(e.seq, e.b, e.at, to)
}

// skip gives up the octets before seq.
func (a *assembler) skip(seq uint32, at Stamp, to sink) {
	n := seqDiff(seq, a.next)
	a.sync(a.next)
	a.next = seq
	a.seen.reset()
	to.hole(n, at)
}

// missing reports n octets after those pushed last that were on the wire but not captured.
func (a *assembler) missing(n int, at Stamp, to sink) {
	if n <= 0 || len(a.early) > 0 {
		return // after a hole already: skip will report it
	}
	a.next += uint32(n)
	a.seen.reset()
	to.hole(n, at)
}

// history remembers the last octets of a stream, up to historyLen, with which retransmissions are compared.
type history struct {
	b     []byte // a ring once it is full
	start int    // index of the oldest octet
}

// historyLen is how many octets are remembered: a retransmission of something older is not compared.
const historyLen = 64 << 10

func (h *history) reset() { h.b, h.start = h.b[:0], 0 }

// add appends octets.
func (h *history) add(b []byte) {
	b = b[max(0, len(b)-historyLen):]
	n := min(len(b), historyLen-len(h.b))
	h.b = append(h.b, b[:n]...)
	for b = b[n:]; len(b) > 0; b = b[n:] {
		n = copy(h.b[h.start:], b)
		h.start = (h.start + n) % historyLen
	}
}

// differ returns how many octets of b differ from the remembered ones. b[0] is the octet that is back octets
// before the end.
func (h *history) differ(b []byte, back int) (n int) {
	if back > len(h.b) { // older than what is remembered
		b = b[min(len(b), back-len(h.b)):]
		back = len(h.b)
	}
	for i, c := range b {
		if h.b[(h.start+len(h.b)-back+i)%len(h.b)] != c {
			n++
		}
	}
	return n
}
