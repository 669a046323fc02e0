package machine

import "github.com/stag-rdma/stag/transport/commitlog/internal/layout"

// proofWindow is how many octets of the ring are read at a time: a ring holds millions of places.
const proofWindow = 64 << 10

// proof reports whether a record of the current epoch after end, where the walk has ended, says that its
// producer knew more to be acknowledged than lies before end. Without damage there is none: what is
// acknowledged is durable, and the walk would have found it.
func (r *reader) proof(end *cursor) (bool, error) {
	limit := end.pos - end.pos%layout.Align + r.hdr.Capacity
	// A place with a plausible header costs a checksum of up to half the ring. Honest records are passed
	// over whole, so together they cost one ring. A producer that makes them overlap has
	// damaged its log.
	budget := 2 * r.hdr.Capacity
	var b []byte
	for pos := end.pos; pos < limit; {
		off := layout.Ring(pos, r.hdr.Capacity)
		b = append(b[:0], make([]byte, min(proofWindow, limit-pos, layout.ToEnd(pos, r.hdr.Capacity)))...)
		if err := r.src.Load(b, layout.RingOff+int(off)); err != nil {
			return false, err
		}
		step := uint64(len(b))
		for at := uint64(0); at < uint64(len(b)); at += layout.Align {
			h := layout.ParseRecord(b[at:])
			place := layout.Place{
				Pos: pos + at, Seq: h.Seq, MinEpoch: r.hdr.Epoch, Last: r.hdr.Epoch, Limit: limit, Capacity: r.hdr.Capacity,
			}
			if h.Seq < end.seq || h.CheckHeader(&place) != layout.Valid {
				continue
			}
			if h.Size() > budget {
				return true, nil
			}
			budget -= h.Size()
			valid, err := r.valid(&h, off+at)
			if err != nil {
				return false, err
			}
			if valid && h.Proven > end.pos {
				return true, nil
			}
			if valid {
				step = at + h.Size()
				break
			}
		}
		pos += step
	}
	return false, nil
}

// valid checks the checksum of the record at off in the ring.
func (r *reader) valid(h *layout.Record, off uint64) (bool, error) {
	payload := make([]byte, h.Len)
	if err := r.src.Load(payload, layout.RingOff+int(off)+layout.RecordHeaderLen); err != nil {
		return false, err
	}
	return h.CheckSum(r.salt(h.Epoch), payload) == layout.Valid, nil
}
