package ddp

// reserveUntagged makes the checks of RFC 5041 Section 7.1 for untagged segments, narrowed by the
// order of the stream: buffer and MSN, MO, length. They apply to a zero-length segment too, because
// it consumes a buffer.
func (r *Receiver) reserveUntagged() ([]byte, error) {
	// A peer that cannot finish a message says why with a Terminate, which is the last that it sends.
	if m := &r.untagged; m.open && (r.seg.QN != QNTerminate || m.qn == QNTerminate) {
		return r.continueUntagged()
	}
	return r.beginUntagged()
}

func (r *Receiver) beginUntagged() ([]byte, error) {
	s := &r.seg
	q := r.cfg.Queues[s.QN]
	if v := msnViolation(s.MSN, r.next[s.QN], q.Posted()); v != OK {
		return nil, r.refuse(v, uint64(s.MSN), uint64(r.next[s.QN]))
	}
	if s.MO != 0 {
		return nil, r.refuse(InvalidMO, uint64(s.MO), 0)
	}
	if size := q.Size(); r.payload > size {
		return nil, r.refuse(TooLong, uint64(r.payload), uint64(size))
	}
	buf, ok := q.Open(s)
	if !ok {
		return nil, ErrStalled
	}
	if r.payload > len(buf) && (buf != nil || !s.Last) {
		return nil, r.refuse(TooLong, uint64(r.payload), uint64(len(buf)))
	}
	r.next[s.QN]++
	r.untagged = message{open: true, control: s.Control, qn: s.QN, msn: s.MSN, buf: buf}
	if buf == nil {
		return nil, nil
	}
	return buf[:r.payload:r.payload], nil
}

// msnViolation judges the MSN of a message that begins. The window goes from next to next+posted-1,
// modulo 2^32 (RFC 5041 Section 4.3); on an ordered stream only its first value is legal. An MSN
// beyond the window has no buffer; any other is out of range.
func msnViolation(msn, next uint32, posted int) Violation {
	ahead := msn - next
	switch {
	case ahead == 0 && posted > 0:
		return OK
	case int32(ahead) >= 0 && uint64(ahead) >= uint64(max(posted, 0)):
		return NoBuffer
	}
	return MSNRange
}

func (r *Receiver) continueUntagged() ([]byte, error) {
	s, m := &r.seg, &r.untagged
	if s.QN != m.qn || !r.sameOpcode(m) {
		return nil, r.refuse(Interleaved, uint64(s.Control), uint64(m.control))
	}
	if s.MSN != m.msn {
		return nil, r.refuse(MSNRange, uint64(s.MSN), uint64(m.msn))
	}
	if uint64(s.MO) != m.placed {
		return nil, r.refuse(InvalidMO, uint64(s.MO), m.placed)
	}
	end := m.placed + uint64(r.payload)
	if end > uint64(len(m.buf)) {
		return nil, r.refuse(TooLong, end, uint64(len(m.buf)))
	}
	return m.buf[m.placed:end:end], nil
}

func (r *Receiver) commitUntagged(payload []byte) Event {
	m := &r.untagged
	m.placed += uint64(r.payload)
	ev := Event{Placed: r.payload, Length: m.placed, Delivered: r.seg.Last}
	if !ev.Delivered {
		return ev
	}
	ev.Data = payload
	if m.buf != nil {
		ev.Data = m.buf[:m.placed:m.placed]
	} else {
		r.whole = true
		next := r.seg
		next.MSN = r.next[next.QN]
		next.Append(r.repeat[:0])
	}
	*m = message{}
	return ev
}
