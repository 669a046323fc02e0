package dir

import (
	"slices"

	"github.com/stag-rdma/stag/internal/shared"
)

// Descriptors are of the process: connections need them too, and the caches of all its directories share what is left.
var served struct {
	mu  shared.Mutex
	all []*FS
}

// serve makes the caches of f give way to whoever has no descriptor left, or ends that.
func (f *FS) serve(on bool) {
	served.mu.Lock()
	defer served.mu.Unlock()
	if on {
		served.all = append(served.all, f)
	} else {
		served.all = slices.DeleteFunc(served.all, func(g *FS) bool { return g == f })
	}
}

// giveWay closes half of what the caches hold and nobody uses, and reports whether that is anything.
func giveWay() bool {
	var all []*FS
	served.mu.With(func() { all = slices.Clone(served.all) })
	n := 0
	for _, f := range all {
		n += f.files.giveWay() + f.grips.giveWay()
	}
	return n > 0
}
