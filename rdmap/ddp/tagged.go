package ddp

// reserveTagged makes the checks for tagged segments. STag and TO of a zero-length segment MUST NOT
// be checked (RFC 5041 Section 7.1). Choice: that holds for every zero-length segment, even for the
// empty last one of a longer message. TO need not be contiguous within a message: the sender only
// SHOULD send it so.
func (r *Receiver) reserveTagged() ([]byte, error) {
	s, m := &r.seg, &r.tagged
	if m.open && (!r.sameOpcode(m) || r.payload > 0 && m.placed > 0 && s.STag != m.stag) {
		return nil, r.refuse(Interleaved, uint64(s.Control), uint64(m.control))
	}
	var dst []byte
	if r.payload > 0 {
		var v Violation
		if dst, v = r.sink(); v != OK {
			return nil, r.refuse(v, uint64(r.payload), 0)
		}
	}
	if !m.open {
		*m = message{open: true, control: s.Control}
	}
	if r.payload > 0 {
		m.stag = s.STag
	}
	return dst, nil
}

// sink asks Sinks for the memory and holds the pin until Commit.
func (r *Receiver) sink() ([]byte, Violation) {
	if r.cfg.Sinks == nil {
		return nil, InvalidSTag
	}
	dst, v := r.cfg.Sinks.Sink(&r.seg, r.payload)
	if v != OK {
		return nil, v
	}
	r.pinned = true
	if len(dst) != r.payload {
		r.unpin()
		return nil, LocalCatastrophic
	}
	return dst, OK
}

func (r *Receiver) commitTagged() Event {
	m := &r.tagged
	m.placed += uint64(r.payload)
	ev := Event{Tagged: true, Placed: r.payload, Length: m.placed, Delivered: r.seg.Last}
	if ev.Delivered {
		*m = message{}
	}
	return ev
}
