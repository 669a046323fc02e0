package mutant_test

import (
	"fmt"

	"github.com/stag-rdma/stag/internal/mutant"
)

// The one branch that a fault changes asks whether it is switched on.
func Example() {
	flushed := false
	if !mutant.Is(mutant.ReleaseFirst) {
		flushed = true // fdatasync
	}
	fmt.Println("flushed:", flushed)
	// Output:
	// flushed: true
}
