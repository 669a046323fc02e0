package decode

import (
	"slices"

	"github.com/stag-rdma/stag/chunks"
	"github.com/stag-rdma/stag/rdmap/ddp"
)

// budget bounds the octets of all the memory that is remembered at one time.
type budget struct{ left int }

// take grants n octets or nothing.
func (b *budget) take(n int) bool {
	if n > b.left {
		return false
	}
	b.left -= n
	return true
}

// region is a memory segment that one side offered in a chunk list, with what the capture shows of its
// contents: the octets that RDMA Writes put there, or that Read Responses carried away.
type region struct {
	seg  chunks.Segment
	data []byte // the first octets of the segment; grows as they are seen
	seen ranges // which octets of data are known
	full bool   // the budget did not allow all of it
	call *call  // who offered it
}

// index returns the offset in the region of the octet at to, and whether n octets from there are
// inside it.
func (r *region) index(stag ddp.STag, to uint64, n int) (int, bool) {
	if uint32(stag) != uint32(r.seg.Handle) || to < r.seg.Offset {
		return 0, false
	}
	off := to - r.seg.Offset
	if off > uint64(r.seg.Length) || uint64(n) > uint64(r.seg.Length)-off {
		return 0, false
	}
	return int(off), true
}

// place copies b to offset off, which index has checked.
func (r *region) place(off int, b []byte, mem *budget) {
	if grow := off + len(b) - len(r.data); grow > 0 {
		if !mem.take(grow) {
			r.full = true
			return
		}
		r.data = append(r.data, make([]byte, grow)...)
	}
	copy(r.data[off:], b)
	r.seen.add(off, off+len(b))
}

// bytes returns n octets from off if all of them were seen.
func (r *region) bytes(off, n int) ([]byte, bool) {
	if !r.seen.covers(off, off+n) {
		return nil, false
	}
	return r.data[off : off+n : off+n], true
}

// whole reports whether all octets of the segment were seen.
func (r *region) whole() bool { return r.seen.covers(0, int(r.seg.Length)) }

// free returns the region's memory to the budget.
func (r *region) free(mem *budget) {
	mem.left += len(r.data)
	r.data, r.seen = nil, nil
}

// ranges is a set of octets as ascending, disjoint, non-touching half-open intervals.
type ranges [][2]int

// maxRanges bounds a set; contents that arrive out of order in more pieces than that are not remembered.
const maxRanges = 1024

// add adds [from, to).
func (s *ranges) add(from, to int) {
	if from >= to {
		return
	}
	v := *s
	i, _ := slices.BinarySearchFunc(v, from, func(r [2]int, f int) int { return r[1] - f })
	j := i
	for j < len(v) && v[j][0] <= to {
		from, to = min(from, v[j][0]), max(to, v[j][1])
		j++
	}
	if i == j && len(v) >= maxRanges {
		return
	}
	*s = slices.Replace(v, i, j, [2]int{from, to})
}

// covers reports whether all of [from, to) is in the set.
func (s ranges) covers(from, to int) bool {
	if from >= to {
		return true
	}
	for _, r := range s {
		if r[0] <= from && to <= r[1] {
			return true
		}
	}
	return false
}
