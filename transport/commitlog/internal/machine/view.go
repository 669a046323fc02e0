package machine

import "slices"

// Kept is what a Consumer knows about the records that it keeps.
type Kept struct {
	Header Header
	Head   Head    // the oldest one
	Tail   uint64  // all records before it may be returned
	Poison *Poison // the one at Tail; nil: none
}

// Kept returns the records that may be read, whether or not Next has returned them. tail is that of Next.
func (c *Consumer) Kept(tail uint64) Kept {
	c.observe(tail)
	return Kept{Header: c.hdr, Head: c.head, Tail: c.tail, Poison: c.poison}
}

// View reads records by number, besides Next. Records have no index: it remembers where some begin.
type View struct {
	src   Source
	marks []cursor // in order
}

// mostMarks limits the places that a View remembers: enough for some readers that each continue where
// they have stopped, and to find any record without walking through the whole ring.
const mostMarks = 128

// NewView returns a View of the ring in src.
func NewView(src Source) *View { return &View{src: src} }

// Read returns the records of k from number from on (0: from the oldest one), with at most octets of the
// ring, but at least one; nothing if there is none yet. What k keeps must not be overwritten meanwhile.
// Errors: *Poison, those of the Source.
func (v *View) Read(k *Kept, from, octets uint64) ([]*Record, error) {
	v.marks = slices.DeleteFunc(v.marks, func(m cursor) bool { return m.pos < k.Head.Pos })
	at := cursor{pos: k.Head.Pos, seq: k.Head.Seq}
	for _, m := range v.marks {
		if m.seq <= from {
			at = m
		}
	}
	r := newReader(v.src, &k.Header)
	var found []*Record
	begin := at.pos
	for at.pos < k.Tail {
		rec, why, err := r.next(&at, k.Tail, 0)
		switch {
		case err != nil:
			return nil, err
		case why != Valid && len(found) > 0:
			return found, nil
		case why != Valid:
			return nil, &Poison{Pos: at.pos, Seq: at.seq, Reason: why}
		case rec != nil && rec.Seq >= from:
			if len(found) > 0 && at.pos-found[0].Pos > octets {
				return found, nil
			}
			found = append(found, rec)
		}
		if far := k.Header.Capacity / mostMarks; at.pos-begin > far || at.pos == k.Tail || len(found) > 0 && at.pos-found[0].Pos >= octets {
			v.mark(at)
			begin = at.pos
		}
	}
	if len(found) == 0 && k.Poison != nil {
		return nil, k.Poison
	}
	return found, nil
}

// mark remembers a place.
func (v *View) mark(at cursor) {
	i, found := slices.BinarySearchFunc(v.marks, at.pos, func(m cursor, pos uint64) int {
		return int(int64(m.pos - pos))
	})
	if found {
		return
	}
	v.marks = slices.Insert(v.marks, i, at)
	if len(v.marks) < mostMarks {
		return
	}
	kept := v.marks[:0]
	for i, m := range v.marks { // every second one, and the last, where readers wait for more
		if i%2 == 0 || i == mostMarks-1 {
			kept = append(kept, m)
		}
	}
	v.marks = kept
}
