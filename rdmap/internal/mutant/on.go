//go:build stagmutant

package mutant

import (
	"fmt"
	"os"
	"slices"
)

// The faults; see off.go.
var (
	SubmissionOrder      = on("submission-order")
	UnplacedWrites       = on("unplaced-writes")
	ResponseOrder        = on("response-order")
	ExecuteOnArrival     = on("execute-on-arrival")
	RequestsPassMessages = on("requests-pass-messages")
	WritesWait           = on("writes-wait")
	KeepGoing            = on("keep-going")
	StoreInBatch         = on("store-in-batch")
	LendWritable         = on("lend-writable")
	Fence                = on("fence")
	CompleteEarly        = on("complete-early")
	CompleteLate         = on("complete-late")
	CompleteUnwritten    = on("complete-unwritten")
	CoupledDirections    = on("coupled-directions")
	ReadAnyOrder         = on("read-any-order")
	AnyHash              = on("any-hash")
	FlushUnchecked       = on("flush-unchecked")
	SilentFirst          = on("silent-first")
	VerifyCopy           = on("verify-copy")
)

var names []string

func on(name string) bool {
	names = append(names, name)
	return os.Getenv("STAG_MUTANT") == name
}

func init() {
	if name := os.Getenv("STAG_MUTANT"); name != "" && !slices.Contains(names, name) {
		fmt.Fprintf(os.Stderr, "STAG_MUTANT=%s: no such mutant; there are %v\n", name, names)
		os.Exit(3)
	}
}
