package once

import (
	"context"

	"github.com/stag-rdma/stag/transport/rpc"
)

// Service is a server whose calls must run exactly once. Its answers about a call depend only on the
// call and on the files, so that it can be asked again after a restart. Its methods must be safe for
// concurrent use.
type Service interface {
	rpc.Handler
	// Names returns names for the objects that the call is about, which are the same for
	// every call: calls that share a name run one after the other. Nil means that the call
	// need not run exactly once, because it changes nothing, or will be refused whatever the
	// files are.
	Names(req *rpc.Request) []string
	// Keep returns what of the arguments Settle will need, at most 16 KiB: usually all of them. It
	// may be a view of them.
	Keep(req *rpc.Request) []byte
	// Before returns what the call finds: all that Settle will need besides the arguments,
	// at most 8 KiB. No other call about the same names runs meanwhile. If it returns false,
	// the state is unknown and the call cannot be executed; Before has then answered it in
	// resp.
	Before(ctx context.Context, req *rpc.Request, resp *rpc.Response) (state []byte, ok bool)
	// Settle says whether the call of an intent was executed. If it was, Settle appends the
	// results that it should have had to results. It may finish what was half done. With an
	// error the server does not start.
	Settle(ctx context.Context, in *Intent, results []byte) ([]byte, Outcome, error)
	// Refuse appends the results that say why a call has no proper answer. Like all results
	// of a covered call, they have at most 1 KiB.
	Refuse(c *Call, why Refusal, results []byte) []byte
}

// Call identifies a call.
type Call struct {
	XID, Prog, Vers, Proc uint32
}

// Intent is a call that was about to be executed.
type Intent struct {
	Call
	Args  []byte // what Keep returned; lent until Settle returns, as is State
	State []byte // what Before returned
	// Len and Sum are the length in octets of all arguments, and their CRC32C.
	Len, Sum uint32
}

// Outcome says what has become of a call.
type Outcome int

// The outcomes.
const (
	NotDone Outcome = iota // it was not executed, or changed nothing: it may run
	Done                   // it was executed
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

// Refusal says why a call has no proper answer.
type Refusal int

// The refusals.
const (
	// NotRecorded: the journal has failed. The call was not executed, or it was, but that could
	// not be recorded.
	NotRecorded Refusal = iota
	// OutcomeUnknown: a crash came in between, and inspection cannot tell.
	OutcomeUnknown
)
