package machine

import (
	"encoding/binary"
	"math"
)

// Salvage is Recover for a damaged log, whose tail word does not count: visit gets the records that follow one another
// from the head, and behind them, with behind, every other one that is whole. Those of an earlier lap of the
// ring do not count, because their numbers are too small. Poison says that records are missing before those
// behind, or that the header shows that there were more. If the newer header is damaged, the records of its epoch say so.
func Salvage(src Source, size int, visit func(r *Record, behind bool) error) (*State, error) {
	st := new(State)
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
	_, err = r.scan(&at, 0, func(h *RecordHeader, rec *Record) bool {
		if h.Filler == 0 {
			st.Poison = &Poison{Pos: at.pos, Seq: at.seq, Reason: why}
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
		st.Poison = &Poison{Pos: at.pos, Seq: at.seq, Reason: Missing}
	}
	return st, nil
}

// Mend returns the operations that end a log where Salvage has found its end. A new epoch, which belongs to nobody,
// makes sure that no record behind that end is ever believed again, and that a producer that has seen it
// acknowledged is refused.
func Mend(st *State) ([]Op, error) {
	if st.Header.Epoch == math.MaxUint32 {
		return nil, ErrEpochs
	}
	h := st.Header
	h.Begin(st.NextSeq, [16]byte{})
	return []Op{
		{Kind: OpStore, Off: TailOff, Data: binary.BigEndian.AppendUint64(nil, st.Tail)},
		persist(Range{TailOff, 8}),
		{Kind: OpStore, Off: h.Slot(), Data: h.Append(nil)},
		persist(Range{h.Slot(), HeaderLen}),
	}, nil
}
