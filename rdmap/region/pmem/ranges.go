package pmem

import (
	"cmp"
	"slices"

	"github.com/stag-rdma/stag/rdmap/region"
)

// lineSize is the size of a cache line in octets, on the processors that this package knows.
const lineSize = 64

// cover returns the smallest number of disjoint ranges that cover rs, ascending, with ends at
// multiples of unit or at size. With unit 1 they hold exactly the octets of rs. It overwrites rs.
func cover(rs []region.Range, unit, size int) []region.Range {
	slices.SortFunc(rs, func(a, b region.Range) int { return cmp.Compare(a.Off, b.Off) })
	out := rs[:0]
	for _, r := range rs {
		if r.N == 0 {
			continue
		}
		end := r.Off + r.N
		if rest := end % unit; rest != 0 {
			end = min(end-rest+unit, size)
		}
		off := r.Off - r.Off%unit
		if k := len(out) - 1; k >= 0 && off <= out[k].Off+out[k].N {
			out[k].N = max(out[k].N, end-out[k].Off)
			continue
		}
		out = append(out, region.Range{Off: off, N: end - off})
	}
	return out
}
