//go:build !stagmutant

// Package mutant names faults that tests have to notice. They are constants with the value
// false, so the compiler drops them. A build with the tag stagmutant has the fault that
// STAG_MUTANT names. `make mutants` tries them all.
package mutant

// The faults. Each is used at one branch of rdmap or of a package below it.
const (
	SubmissionOrder      = false // a work request is sent before one that was posted earlier
	UnplacedWrites       = false // a Write is delivered before it is placed
	ResponseOrder        = false // a response is generated before that of an earlier request
	ExecuteOnArrival     = false // a request is carried out before its turn
	RequestsPassMessages = false // requests do not wait for a message that waits for memory
	WritesWait           = false // Writes wait for such a message
	KeepGoing            = false // a request that fails counts as carried out
	StoreInBatch         = false // a store changes a Read Response that is not yet written
	LendWritable         = false // memory that peers store to is lent to the socket
	Fence                = false // everything after a request waits for its response
	CompleteEarly        = false // requests complete when they have been written
	CompleteLate         = false // Sends and Writes complete with the next response
	CompleteUnwritten    = false // at the end, what was not taken completes while what precedes it is being written
	CoupledDirections    = false // responses wait for those to this side's own requests
	ReadAnyOrder         = false // segments of a Read Response may come in any order, any number of times
	AnyHash              = false // a Verify Response may have any hash
	FlushUnchecked       = false // a Flush of no octets is not checked
	SilentFirst          = false // an error in the first FPDU is not told to the peer
	VerifyCopy           = false // a Verify hashes the copy in memory
)
