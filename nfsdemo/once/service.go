package once

import (
	"context"

	"github.com/stag-rdma/stag/transport"
)

// Service is a server whose calls are to run exactly once. What it is asked about a call
// depends on the call and on the files alone, so that it can be asked again after a restart.
// Its methods may be called from several goroutines at once.
type Service interface {
	transport.Handler
	// Names returns what the call is about, in words that mean the same for every call:
	// calls that share one run one after the other. Nil: the call need not run exactly
	// once, as it changes nothing or will be refused whatever the files are.
	Names(req *transport.Request) []string
	// Before returns what the call finds: all that Settle will want to know besides the
	// arguments, 8 KiB at most. It is called when nobody else runs a call about these
	// names. False: that cannot be said, so the call cannot be executed; then it has been
	// answered in resp.
	Before(ctx context.Context, req *transport.Request, resp *transport.Response) (state []byte, ok bool)
	// Settle says whether the call of an intent was executed, and if it was appends the
	// results that it should have had to results. It may finish what was done by half. An
	// error ends the start of the server.
	Settle(ctx context.Context, in *Intent, results []byte) ([]byte, Outcome, error)
	// Refuse appends the results that say why a call was not answered as it should have been,
	// 1 KiB at most, as are all results of a covered call.
	Refuse(c *Call, why Refusal, results []byte) []byte
}

// Call names a call.
type Call struct {
	XID, Prog, Vers, Proc uint32
}

// Intent is a call that was about to be executed.
type Intent struct {
	Call
	Args  []byte // lent, as is State
	State []byte // what Before returned
}

// Outcome says what has become of a call.
type Outcome int

// The outcomes.
const (
	NotDone Outcome = iota // it was not executed, or changed nothing: it may run
	Done                   // it was
	Unknown                // nobody can tell: it is answered with Refuse, and does not run
)

// String returns "not done", "done" or "unknown".
func (o Outcome) String() string {
	switch o {
	case NotDone:
		return "not done"
	case Done:
		return "done"
	default:
		return "unknown"
	}
}

// Refusal says why a call has no better answer.
type Refusal int

// The refusals.
const (
	// NotRecorded: the journal has failed. The call was not executed, or was without anybody
	// being able to promise so.
	NotRecorded Refusal = iota
	// OutcomeUnknown: a crash came between, and inspection cannot tell.
	OutcomeUnknown
)
