package machine

// scanWindow is how many octets of the ring are read at a time: a ring holds millions of places.
const scanWindow = 64 << 10

// proof reports whether a record of the current epoch after end, where the walk has ended, says that its
// producer knew more to be acknowledged than lies before end, or is of the next epoch. Without damage there is none: what is
// acknowledged is durable, and the walk would have found it; and a header is durable before a record of its epoch is sent.
func (r *reader) proof(end *cursor) (bool, error) {
	found := false
	spent, err := r.scan(end, r.hdr.Epoch, func(h *RecordHeader, _ *Record) bool {
		found = h.Proven > end.pos || h.Epoch > r.hdr.Epoch
		return !found
	})
	return found || spent, err
}

// scan calls visit with the valid records after end, of minEpoch up to the one after that of the header, whose numbers are not below that of end, in order
// of their places. It ends when visit returns false. spent says that the places that look like records claim more than
// two rings: honest ones are passed over whole, so together they cost one. A producer that makes them overlap has damaged
// its log, and each may cost a checksum of half the ring.
func (r *reader) scan(end *cursor, minEpoch uint32, visit func(*RecordHeader, *Record) bool) (spent bool, err error) {
	limit := end.pos - end.pos%Align + r.hdr.Capacity
	budget := 2 * r.hdr.Capacity
	var b []byte
	for pos := end.pos; pos < limit; {
		off := Ring(pos, r.hdr.Capacity)
		b = append(b[:0], make([]byte, min(scanWindow, limit-pos, ToEnd(pos, r.hdr.Capacity)))...)
		if err := r.src.Load(b, RingOff+int(off)); err != nil {
			return false, err
		}
		step := uint64(len(b))
		for at := uint64(0); at < uint64(len(b)); at += Align {
			h := ParseRecord(b[at:])
			place := Expected{
				Pos: pos + at, Seq: h.Seq, MinEpoch: max(minEpoch, 1), Last: r.last(true), Limit: limit, Capacity: r.hdr.Capacity,
			}
			if h.Seq < end.seq || h.CheckHeader(&place) != Valid {
				continue
			}
			if h.Size() > budget {
				return true, nil
			}
			budget -= h.Size()
			payload := make([]byte, h.Len)
			if err := r.src.Load(payload, RingOff+int(off+at)+RecordHeaderLen); err != nil {
				return false, err
			}
			if h.CheckSum(r.salt(h.Epoch), payload) != Valid {
				continue
			}
			if !visit(&h, &Record{Pos: pos + at, Seq: h.Seq, Epoch: h.Epoch, Payload: payload}) {
				return false, nil
			}
			step = at + h.Size()
			break
		}
		pos += step
	}
	return false, nil
}
