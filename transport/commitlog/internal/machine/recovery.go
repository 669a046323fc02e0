package machine

import (
	"cmp"
	"errors"
)

// State is what recovery has found.
type State struct {
	Header  Header
	Head    Head
	Slot    int    // 0 or 1: where Head was found
	Durable uint64 // the tail in the memory
	Tail    uint64 // the end of the last record that counts; not below Durable and Head
	NextSeq uint64 // of the next append
	Poison  *Poison
	// The header and the head slot that fail their check, while the other of the two counts; nil: none.
	BadHeader, BadHead *FormatError
}

// Recover reads a log of size octets and changes nothing. If visit is not nil, Recover calls it
// with each record, whose payload visit takes. Errors: *FormatError, and those of src and
// visit.
//
// Every record before the durable tail must pass its checks, or is Poison. Records after it count as long as they
// follow one another in the epoch of the header, because in wal mode the tail reaches the medium lazily, and in strict
// mode it may be damaged. If one of the records behind the end says that something behind the end was
// acknowledged, the record at the end is damaged, and Poison. The tail is durable before an
// epoch is, so the records before the first one of the epoch must exist.
func Recover(src Source, size int, visit func(*Record) error) (*State, error) {
	st := new(State)
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
	if why != Valid {
		st.Poison = &Poison{Pos: at.pos, Seq: at.seq, Reason: why}
	} else {
		// Also in epoch 0, which has no records: the header of the first session may be the damaged one.
		if _, err := r.walk(&at, st.Head.Pos+st.Header.Capacity, st.Header.Epoch, visit); err != nil {
			return nil, err
		}
		st.Tail = at.pos
		if damaged, err := r.proof(&at); err != nil {
			return nil, err
		} else if damaged {
			st.Poison = &Poison{Pos: at.pos, Seq: at.seq, Reason: Damaged}
		}
	}
	st.NextSeq = at.seq
	if st.Poison == nil && st.NextSeq < st.Header.First {
		st.Poison = &Poison{Pos: at.pos, Seq: at.seq, Reason: Missing}
	}
	return st, nil
}

// walk visits the records from at to limit, up to the first octets that are not a record.
func (r *reader) walk(at *cursor, limit uint64, minEpoch uint32, visit func(*Record) error) (Reason, error) {
	for at.pos < limit {
		rec, why, err := r.next(at, limit, minEpoch)
		if err != nil || why != Valid {
			return why, err
		}
		if rec == nil {
			continue
		}
		if err := visit(rec); err != nil {
			return 0, err
		}
	}
	return Valid, nil
}

// control reads the control blocks.
func (st *State) control(src Source, size int) error {
	if err := st.fixed(src, size); err != nil {
		return err
	}
	return st.setTail(st.Durable)
}

// fixed reads the control blocks without the tail word.
func (st *State) fixed(src Source, size int) error {
	if size < RingOff {
		return &FormatError{Field: "memory", Kind: ErrSize, Got: uint64(size), Want: RingOff + MinCapacity}
	}
	if err := st.header(src); err != nil {
		return err
	}
	if want := RingOff + st.Header.Capacity; uint64(size) != want {
		return &FormatError{Field: "memory", Kind: ErrSize, Got: uint64(size), Want: want}
	}
	if err := st.head(src); err != nil {
		return err
	}
	st.doubt()
	var err error
	st.Durable, err = loadWord(src, TailOff)
	return err
}

// setTail takes the tail word. In wal mode a consumer may flush its head before the tail that it
// has read: then the head is later.
func (st *State) setTail(tail uint64) error {
	if tail%Align != 0 || tail > st.Head.Pos && tail-st.Head.Pos > st.Header.Capacity {
		return &FormatError{Field: "tail", Off: TailOff, Kind: ErrValue, Got: tail, Want: st.Head.Pos}
	}
	st.Tail = max(tail, st.Head.Pos)
	return nil
}

// header takes the newer of the valid headers. While one is being written, the other one is valid.
func (st *State) header(src Source) error {
	var bad *FormatError
	found := false
	for _, off := range []int{HeaderOff, HeaderOff + BlockSize} {
		var b [HeaderLen]byte
		if err := src.Load(b[:], off); err != nil {
			return err
		}
		var h Header
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
func (st *State) doubt() {
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
func (st *State) head(src Source) error {
	var bad *FormatError
	found := false
	for slot := range 2 {
		off := HeadOff + slot*HeadSlotGap
		var b [HeadLen]byte
		if err := src.Load(b[:], off); err != nil {
			return err
		}
		var h Head
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
