package machine

import (
	"encoding/binary"
	"fmt"
	"math"
)

// Source reads the memory of a log. Load copies the octets at off to p; its error is final.
type Source interface {
	Load(p []byte, off int) error
}

// Poison is a record before the tail that fails its check. Neither it nor the records after it are
// returned; those before it stay readable.
type Poison struct {
	Pos    uint64 // of the record
	Seq    uint64 // the number that it should have
	Reason Reason
}

// Error says where the record is, and why it is not returned.
func (p *Poison) Error() string {
	return fmt.Sprintf("commitlog: record %d at position %d is poisoned: %v (records before it are readable; restore the others from a copy)",
		p.Seq, p.Pos, p.Reason)
}

// Record is a record that has passed its checks. The payload is a copy.
type Record struct {
	Pos, Seq uint64
	Epoch    uint32
	Payload  []byte
}

// cursor is a place between two records.
type cursor struct {
	pos, seq uint64
	epoch    uint32 // of the record before; epochs never decrease
}

// reader reads the records of a ring.
type reader struct {
	src   Source
	hdr   *Header
	ahead bool // records of the epoch after that of hdr are believed
	salts map[uint32]uint64
}

func newReader(src Source, hdr *Header) *reader {
	return &reader{src: src, hdr: hdr, salts: make(map[uint32]uint64)}
}

// last returns the last epoch that a record may have: that of the header, or the one after it, in case that the newer
// header is damaged.
func (r *reader) last(ahead bool) uint32 {
	if ahead && r.hdr.Epoch < math.MaxUint32 {
		return r.hdr.Epoch + 1
	}
	return r.hdr.Epoch
}

func (r *reader) salt(epoch uint32) uint64 {
	s, ok := r.salts[epoch]
	if !ok {
		s = r.hdr.Salt(epoch)
		r.salts[epoch] = s
	}
	return s
}

// next reads the record at at, which must not end after limit, and moves at past it. It returns no
// record and no reason for a filler. The error is that of the Source.
func (r *reader) next(at *cursor, limit uint64, minEpoch uint32) (*Record, Reason, error) {
	off := RingOff + int(Ring(at.pos, r.hdr.Capacity))
	var head [RecordHeaderLen]byte
	if err := r.src.Load(head[:], off); err != nil {
		return nil, 0, err
	}
	h := ParseRecord(head[:])
	place := Expected{
		Pos: at.pos, Seq: at.seq, MinEpoch: max(at.epoch, minEpoch, 1), Last: r.last(r.ahead),
		Limit: limit, Capacity: r.hdr.Capacity,
	}
	if why := h.CheckHeader(&place); why != Valid {
		return nil, why, nil
	}
	var payload []byte
	if h.Filler == 0 {
		payload = make([]byte, h.Len)
		if err := r.src.Load(payload, off+RecordHeaderLen); err != nil {
			return nil, 0, err
		}
	}
	if why := h.CheckSum(r.salt(h.Epoch), payload); why != Valid {
		return nil, why, nil
	}
	rec := &Record{Pos: at.pos, Seq: h.Seq, Epoch: h.Epoch, Payload: payload}
	at.pos, at.epoch = at.pos+h.Size(), h.Epoch
	if h.Filler != 0 {
		return nil, Valid, nil
	}
	at.seq++
	return rec, Valid, nil
}

func loadWord(src Source, off int) (uint64, error) {
	var b [8]byte
	err := src.Load(b[:], off)
	return binary.BigEndian.Uint64(b[:]), err
}
