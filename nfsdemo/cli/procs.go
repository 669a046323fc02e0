package cli

import (
	"os"
	"runtime"
)

// leastProcs is how many of Go's processors a server that writes to disks has at least.
const leastProcs = 8

// spareProcs gives it as many, also where the machine has fewer, unless the environment says
// how many. A thread that waits for a disk keeps one until Go's monitor notices: with two of
// them, two writes under way are enough for nobody to be served meanwhile, although the
// machine has nothing to do.
func spareProcs() {
	if os.Getenv("GOMAXPROCS") == "" && runtime.GOMAXPROCS(0) < leastProcs {
		runtime.GOMAXPROCS(leastProcs)
	}
}
