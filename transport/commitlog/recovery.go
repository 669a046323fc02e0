package commitlog

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"github.com/stag-rdma/stag/rdmap/region"
)

// source reads the memory of a log. Load copies the octets at off to p; its error is final.
type source interface {
	Load(p []byte, off int) error
}

// PoisonError reports a record that fails its check: its position, its number, and the reason. Next
// never returns that record and those after it, and nothing can be appended. The records before it
// stay readable.
type PoisonError struct {
	Pos    uint64 // of the record
	Seq    uint64 // the number that it should have
	Reason Reason
}

// Error says where the record is, and why it is not returned.
func (p *PoisonError) Error() string {
	return fmt.Sprintf("commitlog: record %d at position %d is poisoned: %v (records before it are readable; restore the others from a copy)",
		p.Seq, p.Pos, p.Reason)
}

// Record is a record that has passed its checks. The payload is a copy, and belongs to the
// reader.
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
	src   source
	hdr   *header
	ahead bool // records of the epoch after that of hdr are believed
	salts map[uint32]uint64
}

func newReader(src source, hdr *header) *reader {
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
// record and no reason for a filler. The error is that of the source.
func (r *reader) next(at *cursor, limit uint64, minEpoch uint32) (*Record, Reason, error) {
	off := ringOff + int(ringAt(at.pos, r.hdr.Capacity))
	var head [recordHeaderLen]byte
	if err := r.src.Load(head[:], off); err != nil {
		return nil, 0, err
	}
	h := parseRecord(head[:])
	place := expected{
		Pos: at.pos, Seq: at.seq, MinEpoch: max(at.epoch, minEpoch, 1), Last: r.last(r.ahead),
		Limit: limit, Capacity: r.hdr.Capacity,
	}
	if why := h.CheckHeader(&place); why != valid {
		return nil, why, nil
	}
	var payload []byte
	if h.Filler == 0 {
		payload = make([]byte, h.Len)
		if err := r.src.Load(payload, off+recordHeaderLen); err != nil {
			return nil, 0, err
		}
	}
	if why := h.CheckSum(r.salt(h.Epoch), payload); why != valid {
		return nil, why, nil
	}
	rec := &Record{Pos: at.pos, Seq: h.Seq, Epoch: h.Epoch, Payload: payload}
	at.pos, at.epoch = at.pos+h.Size(), h.Epoch
	if h.Filler != 0 {
		return nil, valid, nil
	}
	at.seq++
	return rec, valid, nil
}

func loadWord(src source, off int) (uint64, error) {
	var b [8]byte
	err := src.Load(b[:], off)
	return binary.BigEndian.Uint64(b[:]), err
}

// state is what recovery has found.
type state struct {
	Header  header
	Head    headSlot
	Slot    int    // 0 or 1: where Head was found
	Durable uint64 // the tail in the memory
	Tail    uint64 // the end of the last record that counts; not below Durable and Head
	NextSeq uint64 // of the next append
	Poison  *PoisonError
	// The header and the head slot that fail their check, while the other of the two counts; nil: none.
	BadHeader, BadHead *FormatError
}

// recoverLog reads a log of size octets and changes nothing. If visit is not nil, it is called
// with each record, whose payload visit takes. Errors: *FormatError, and those of src and
// visit.
//
// Every record before the durable tail must pass its checks, or is Poison. Records after it count as long as they
// follow one another in the epoch of the header, because in wal mode the tail reaches the medium lazily, and in strict
// mode it may be damaged. If one of the records behind the end says that something behind the end was
// acknowledged, the record at the end is damaged, and Poison. The tail is durable before an
// epoch is, so the records before the first one of the epoch must exist.
func recoverLog(src source, size int, visit func(*Record) error) (*state, error) {
	st := new(state)
	if err := st.control(src, size); err != nil {
		return nil, err
	}
	r := newReader(src, &st.Header)
	at := cursor{pos: st.Head.Pos, seq: st.Head.Seq}
	if visit == nil {
		visit = func(*Record) error { return nil }
	}
	why, err := r.walk(&at, st.Tail, 0, visit)
	if err != nil {
		return nil, err
	}
	if why != valid {
		st.Poison = &PoisonError{Pos: at.pos, Seq: at.seq, Reason: why}
	} else {
		// Also in epoch 0, which has no records: the header of the first session may be the damaged one.
		if _, err := r.walk(&at, st.Head.Pos+st.Header.Capacity, st.Header.Epoch, visit); err != nil {
			return nil, err
		}
		st.Tail = at.pos
		if proven, err := r.proof(&at); err != nil {
			return nil, err
		} else if proven {
			st.Poison = &PoisonError{Pos: at.pos, Seq: at.seq, Reason: damaged}
		}
	}
	st.NextSeq = at.seq
	if st.Poison == nil && st.NextSeq < st.Header.First {
		st.Poison = &PoisonError{Pos: at.pos, Seq: at.seq, Reason: missing}
	}
	return st, nil
}

// walk visits the records from at to limit, up to the first octets that are not a record.
func (r *reader) walk(at *cursor, limit uint64, minEpoch uint32, visit func(*Record) error) (Reason, error) {
	for at.pos < limit {
		rec, why, err := r.next(at, limit, minEpoch)
		if err != nil || why != valid {
			return why, err
		}
		if rec == nil {
			continue
		}
		if err := visit(rec); err != nil {
			return 0, err
		}
	}
	return valid, nil
}

// control reads the control blocks.
func (st *state) control(src source, size int) error {
	if err := st.fixed(src, size); err != nil {
		return err
	}
	return st.setTail(st.Durable)
}

// fixed reads the control blocks without the tail word.
func (st *state) fixed(src source, size int) error {
	if size < ringOff {
		return &FormatError{Field: "memory", Kind: ErrSize, Got: uint64(size), Want: ringOff + minCapacity}
	}
	if err := st.header(src); err != nil {
		return err
	}
	if want := ringOff + st.Header.Capacity; uint64(size) != want {
		return &FormatError{Field: "memory", Kind: ErrSize, Got: uint64(size), Want: want}
	}
	if err := st.head(src); err != nil {
		return err
	}
	st.doubt()
	var err error
	st.Durable, err = loadWord(src, tailOff)
	return err
}

// setTail takes the tail word. In wal mode a consumer may flush its head before the tail that it
// has read: then the head is later.
func (st *state) setTail(tail uint64) error {
	if tail%align != 0 || tail > st.Head.Pos && tail-st.Head.Pos > st.Header.Capacity {
		return &FormatError{Field: "tail", Off: tailOff, Kind: ErrValue, Got: tail, Want: st.Head.Pos}
	}
	st.Tail = max(tail, st.Head.Pos)
	return nil
}

// header takes the newer of the valid headers. While one is being written, the other one is valid.
func (st *state) header(src source) error {
	var bad *FormatError
	found := false
	for _, off := range []int{headerOff, headerOff + blockSize} {
		var b [headerLen]byte
		if err := src.Load(b[:], off); err != nil {
			return err
		}
		var h header
		err := h.Parse(b[:], off)
		e, spoiled := errors.AsType[*FormatError](err)
		switch {
		case spoiled && errors.Is(e.Kind, ErrVersion) && e.Got != 0: // of another version; 0 is one of ours that was torn after the magic
			return err
		case spoiled:
			// Keep the more useful error: a torn header says more than a block of zeros.
			if bad == nil || errors.Is(bad, ErrMagic) {
				bad = e
			}
		case !found || h.Generation > st.Header.Generation:
			st.Header, found = h, true
		}
	}
	if !found {
		return bad
	}
	st.BadHeader = bad
	return nil
}

// doubt looks at what a damaged header may have said.
func (st *state) doubt() {
	h := &st.Header
	switch bad := st.BadHeader; {
	case bad == nil:
	case h.Generation == 0 && st.Head.Seq > 1: // somebody has appended
		h.Begin(0, [16]byte{})
		h.Generation-- // the next one belongs where the damaged one is
	case h.Generation == 0 && errors.Is(bad, ErrMagic) && bad.Got == 0: // the first header has no other
		st.BadHeader = nil
	default:
		h.Instance = [16]byte{} // it may have been the newer one, of a session that has fenced this one
	}
}

// head takes the later of the valid slots.
func (st *state) head(src source) error {
	var bad *FormatError
	found := false
	for slot := range 2 {
		off := headOff + slot*headSlotGap
		var b [headLen]byte
		if err := src.Load(b[:], off); err != nil {
			return err
		}
		var h headSlot
		err := h.Parse(b[:], &st.Header.ID, off)
		e, spoiled := errors.AsType[*FormatError](err)
		switch {
		case spoiled:
			bad = cmp.Or(bad, e)
		case !found || h.Pos > st.Head.Pos:
			st.Head, st.Slot, found = h, slot, true
		}
	}
	if !found {
		return bad
	}
	st.BadHead = bad
	return nil
}

// scanWindow is how many octets of the ring are read at a time: a ring holds millions of places.
const scanWindow = 64 << 10

// proof reports whether a record of the current epoch after end, where the walk has ended, says that its
// producer knew more to be acknowledged than lies before end, or is of the next epoch. Without damage there is none: what is
// acknowledged is durable, and the walk would have found it; and a header is durable before a record of its epoch is sent.
func (r *reader) proof(end *cursor) (bool, error) {
	found := false
	spent, err := r.scan(end, r.hdr.Epoch, func(h *recordHeader, _ *Record) bool {
		found = h.Proven > end.pos || h.Epoch > r.hdr.Epoch
		return !found
	})
	return found || spent, err
}

// scan calls visit with the valid records after end, of minEpoch up to the one after that of the header, whose numbers are not below that of end, in order
// of their places. It ends when visit returns false. spent says that the places that look like records claim more than
// two rings: honest ones are passed over whole, so together they cost one. A producer that makes them overlap has damaged
// its log, and each may cost a checksum of half the ring.
func (r *reader) scan(end *cursor, minEpoch uint32, visit func(*recordHeader, *Record) bool) (spent bool, err error) {
	limit := end.pos - end.pos%align + r.hdr.Capacity
	budget := 2 * r.hdr.Capacity
	var b []byte
	for pos := end.pos; pos < limit; {
		off := ringAt(pos, r.hdr.Capacity)
		b = append(b[:0], make([]byte, min(scanWindow, limit-pos, toEnd(pos, r.hdr.Capacity)))...)
		if err := r.src.Load(b, ringOff+int(off)); err != nil {
			return false, err
		}
		step := uint64(len(b))
		for at := uint64(0); at < uint64(len(b)); at += align {
			h := parseRecord(b[at:])
			place := expected{
				Pos: pos + at, Seq: h.Seq, MinEpoch: max(minEpoch, 1), Last: r.last(true), Limit: limit, Capacity: r.hdr.Capacity,
			}
			if h.Seq < end.seq || h.CheckHeader(&place) != valid {
				continue
			}
			if h.Size() > budget {
				return true, nil
			}
			budget -= h.Size()
			payload := make([]byte, h.Len)
			if err := r.src.Load(payload, ringOff+int(off+at)+recordHeaderLen); err != nil {
				return false, err
			}
			if h.CheckSum(r.salt(h.Epoch), payload) != valid {
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

// salvageLog is recoverLog for a damaged log, whose tail word does not count: visit gets the records that follow one another
// from the head, and behind them, with behind, every other one that is whole. Those of an earlier lap of the
// ring do not count, because their numbers are too small. Poison says that records are missing before those
// behind, or that the header shows that there were more. If the newer header is damaged, the records of its epoch say so.
func salvageLog(src source, size int, visit func(r *Record, behind bool) error) (*state, error) {
	st := new(state)
	if err := st.fixed(src, size); err != nil {
		return nil, err
	}
	old := st.Header
	r := newReader(src, &old)
	r.ahead = true
	seen := func(rec *Record, behind bool) error {
		if rec.Epoch > st.Header.Epoch {
			st.Header.Begin(rec.Seq, [16]byte{})
			st.Header.Generation-- // so that Mend writes over the damaged one
		}
		return visit(rec, behind)
	}
	at := cursor{pos: st.Head.Pos, seq: st.Head.Seq}
	why, err := r.walk(&at, st.Head.Pos+st.Header.Capacity, 0, func(rec *Record) error { return seen(rec, false) })
	if err != nil {
		return nil, err
	}
	st.Tail, st.NextSeq = at.pos, at.seq
	var verr error
	_, err = r.scan(&at, 0, func(h *recordHeader, rec *Record) bool {
		if h.Filler == 0 {
			st.Poison = &PoisonError{Pos: at.pos, Seq: at.seq, Reason: why}
			verr = seen(rec, true)
		}
		return verr == nil
	})
	switch {
	case err != nil:
		return nil, err
	case verr != nil:
		return nil, verr
	case st.Poison == nil && at.seq < st.Header.First:
		st.Poison = &PoisonError{Pos: at.pos, Seq: at.seq, Reason: missing}
	}
	return st, nil
}

// mending returns the operations that end a log where Salvage has found its end. A new epoch, which belongs to nobody,
// makes sure that no record behind that end is ever believed again, and that a producer that has seen it
// acknowledged is refused.
func mending(st *state) ([]step, error) {
	if st.Header.Epoch == math.MaxUint32 {
		return nil, ErrEpochs
	}
	h := st.Header
	h.Begin(st.NextSeq, [16]byte{})
	return []step{
		{Off: tailOff, Data: binary.BigEndian.AppendUint64(nil, st.Tail)},
		persist(region.Range{Off: tailOff, N: 8}),
		{Off: h.Slot(), Data: h.Append(nil)},
		persist(region.Range{Off: h.Slot(), N: headerLen}),
	}, nil
}
