package machine

import "github.com/stag-rdma/stag/transport/commitlog/internal/layout"

// Salvage is Recover for a log with an impossible tail word: only records that follow one another
// from the head count. Those of an earlier lap of the ring do not count, because their numbers are
// too small. Records after a damaged one are not found; Poison says so if the header shows that
// there were some.
func Salvage(src Source, size int, visit func(*Record) error) (*State, error) {
	st := new(State)
	if err := st.fixed(src, size); err != nil {
		return nil, err
	}
	if visit == nil {
		visit = func(*Record) error { return nil }
	}
	r := newReader(src, &st.Header)
	at := cursor{pos: st.Head.Pos, seq: st.Head.Seq}
	if _, err := r.walk(&at, st.Head.Pos+st.Header.Capacity, 0, visit); err != nil {
		return nil, err
	}
	st.Tail, st.NextSeq = at.pos, at.seq
	if at.seq < st.Header.First {
		st.Poison = &Poison{Pos: at.pos, Seq: at.seq, Reason: layout.Missing}
	}
	return st, nil
}
