package decode

import (
	"net/netip"

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
