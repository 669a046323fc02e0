package decode

import "net/netip"

// flowKey names a TCP connection whichever way a packet goes: the ends in ascending order.
type flowKey struct{ a, b netip.AddrPort }

// flow is a TCP connection of a capture: two streams to put in order, and the machine they feed.
type flow struct {
	conn    *Conn
	streams [2]stream
}

// stream is one direction of a flow.
type stream struct {
	assembler
	isn   uint32 // of the SYN, if one was seen
	syn   bool
	fin   bool // a FIN was seen
	finAt Stamp
	flow  *flow
	dir   Dir
}

var _ sink = (*stream)(nil)

func (s *stream) octets(b []byte, at Stamp) { s.flow.conn.Octets(s.dir, b, at) }

func (s *stream) hole(n int, at Stamp) { s.flow.conn.Hole(s.dir, n, at) }

// newFlow returns the flow of the connection that src opened to dst.
func newFlow(id int, src, dst netip.AddrPort, opt *Options, mem *budget, visit func(*Event)) *flow {
	f := &flow{conn: NewConn(opt, visit)}
	f.conn.rpc.mem = mem
	f.conn.Info.ID, f.conn.Info.Opener, f.conn.Info.Accepter = id, src, dst
	for dir := range f.streams {
		f.streams[dir] = stream{assembler: assembler{limit: f.conn.opt.MaxEarly}, flow: f, dir: Dir(dir)}
	}
	return f
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
	return s.syn && s.isn != seg.seq || !s.syn && s.synced
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
	if seg.rst {
		s.finish(s)
		f.conn.Close(dir, true, at)
		return
	}
	s.push(seq, seg.payload, at, s)
	s.missing(seg.missing, at, s)
	if seg.fin && !s.fin {
		s.fin, s.finAt = true, at
	}
	if s.fin && len(s.early) == 0 {
		f.conn.Close(dir, false, s.finAt)
	}
}

// end reports what is left when nothing more will come.
func (f *flow) end() {
	for dir := range f.streams {
		s := &f.streams[dir]
		s.finish(s)
		if s.fin {
			f.conn.Close(Dir(dir), false, s.finAt)
		}
	}
	f.conn.Finish()
}
