//go:build !stagmutant

// Package mutant names faults that tests have to notice. They are constants that are
// false, so nothing of them is in a program; a build with the tag stagmutant has the one
// that STAG_MUTANT names. `make mutants` tries them all.
package mutant

// The faults, each at the one branch of package rdmap that says its name.
const (
	SubmissionOrder      = false // a work request leaves before the one posted ahead of it
	UnplacedWrites       = false // a Write is delivered before it is placed
	ResponseOrder        = false // a response is generated before that of an earlier request
	ExecuteOnArrival     = false // a request is carried out before its turn
	RequestsPassMessages = false // requests do not wait for a message that waits for memory
	WritesWait           = false // Writes do
	KeepGoing            = false // a request that fails counts as carried out
	StoreInBatch         = false // a store changes a Read Response that is not yet written
	LendWritable         = false // memory that peers store to is lent to the socket
	Fence                = false // whatever is behind a request waits for its response
	CompleteEarly        = false // requests complete when they have been written
	CompleteLate         = false // Sends and Writes complete with the next response
	CoupledDirections    = false // responses wait for those to own requests
)
