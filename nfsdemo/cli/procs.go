package cli

import (
	"os"
	"runtime"
)

// leastProcs is the least GOMAXPROCS for a server that writes to disks.
const leastProcs = 8

// spareProcs raises GOMAXPROCS to leastProcs, unless the environment sets it. A thread that waits
// for a disk keeps its processor (in the sense of Go's scheduler) until the runtime notices. With
// only two of them, two writes could stop the server although the machine is idle.
func spareProcs() {
	if os.Getenv("GOMAXPROCS") == "" && runtime.GOMAXPROCS(0) < leastProcs {
		runtime.GOMAXPROCS(leastProcs)
	}
}
