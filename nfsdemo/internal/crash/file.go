package crash

import "slices"

// file is what the content of a file may be.
type file struct {
	pieces []fate // the most pieces that it may have
	least  int    // the least number of pieces
	// The write verifier of data that were written and are not durable. A COMMIT that is
	// answered with the same one makes them durable (RFC 1813 Section 3.3.21).
	verf  uint64
	loose bool // there are such data
	mixed bool // their answers had different verifiers
}

// fate holds the stamps that a piece may have; the last was written last.
type fate []uint64

func (f *file) clone() file {
	c := *f
	c.pieces = slices.Clone(f.pieces)
	for i, p := range c.pieces {
		c.pieces[i] = slices.Clone(p)
	}
	return c
}

// truncate sets the size, durably.
func (f *file) truncate(n int) {
	f.grow(n)
	f.pieces, f.least = f.pieces[:n], n
}

// grow makes room for n pieces.
func (f *file) grow(n int) {
	for len(f.pieces) < n {
		f.pieces = append(f.pieces, fate{hole})
	}
}

// write applies a Write. Without a result, each piece may have been written or not.
func (f *file) write(worker uint16, o *Op, res *Result) {
	end := o.First + o.Pieces
	f.grow(end)
	sure := res != nil && res.Stable
	for i := range o.Pieces {
		p := &f.pieces[o.First+i]
		if sure {
			*p = nil
		}
		*p = append(*p, stamp(worker, o.N, i))
	}
	switch {
	case sure:
		f.least = max(f.least, end)
		if _, some := f.unsure(1); some == 0 {
			f.loose, f.mixed = false, false
		}
	case res != nil:
		f.mixed = f.loose && (f.mixed || f.verf != res.Verf)
		f.loose, f.verf = true, res.Verf
	}
}

// commit makes the written data durable, unless the server has lost them meanwhile.
func (f *file) commit(res *Result) {
	if res == nil || f.mixed || f.loose && f.verf != res.Verf {
		return
	}
	for i, p := range f.pieces {
		f.pieces[i] = p[len(p)-1:]
	}
	f.least, f.loose = len(f.pieces), false
}

// unsure returns the first run of pieces that a client must write again, because a COMMIT said
// that they may be lost.
func (f *file) unsure(most int) (first, n int) {
	open := func(p fate) bool { return len(p) > 1 }
	first = slices.IndexFunc(f.pieces, open)
	if first < 0 {
		if f.least < len(f.pieces) {
			return len(f.pieces) - 1, 1
		}
		return 0, 0
	}
	for n = 1; n < most && first+n < len(f.pieces) && open(f.pieces[first+n]); n++ {
	}
	return first, n
}
