package judge

import "slices"

// spans is a set of octets, as ascending half-open intervals that do not touch.
type spans [][2]uint64

// maxSpans bounds a set. Octets that come out of order in more pieces are taken to be there: a judge that
// has lost count reports nothing.
const maxSpans = 64

// add adds [from, to).
func (s *spans) add(from, to uint64) {
	if from >= to {
		return
	}
	v := *s
	if n := len(v); n > 0 && v[n-1][1] == from { // the usual case
		v[n-1][1] = to
		return
	}
	i := 0
	for i < len(v) && v[i][1] < from {
		i++
	}
	j := i
	for j < len(v) && v[j][0] <= to {
		from, to = min(from, v[j][0]), max(to, v[j][1])
		j++
	}
	if i == j && len(v) >= maxSpans {
		*s = spans{{v[0][0], max(v[len(v)-1][1], to)}}
		return
	}
	*s = slices.Replace(v, i, j, [2]uint64{from, to})
}

// cover reports whether all of [from, to) is in the set.
func (s spans) cover(from, to uint64) bool {
	return from >= to || slices.ContainsFunc(s, func(r [2]uint64) bool { return r[0] <= from && to <= r[1] })
}
