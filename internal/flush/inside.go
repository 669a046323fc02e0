package flush

import (
	"slices"

	"github.com/stag-rdma/stag/rdmap/region"
)

// Inside reports whether the n octets at off are within size octets.
func Inside(off, n, size int) bool { return off >= 0 && n >= 0 && off <= size && n <= size-off }

// AllInside reports Inside for all of rs.
func AllInside(rs []region.Range, size int) bool {
	return !slices.ContainsFunc(rs, func(r region.Range) bool { return !Inside(r.Off, r.N, size) })
}
