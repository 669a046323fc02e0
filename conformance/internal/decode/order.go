package decode

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
