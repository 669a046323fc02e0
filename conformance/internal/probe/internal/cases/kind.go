package cases

// Kind is how a peer answered a try.
type Kind uint8

// The kinds. Those from KindAnswered to KindErrChunk are answers to the call that the
// try is about.
const (
	KindSilent       Kind = iota // nothing, and the connection is open
	KindAnswered                 // RPC reply: SUCCESS
	KindGarbageArgs              // RPC reply: GARBAGE_ARGS
	KindProgUnavail              // RPC reply: PROG_UNAVAIL
	KindProgMismatch             // RPC reply: PROG_MISMATCH
	KindProcUnavail              // RPC reply: PROC_UNAVAIL
	KindSystemErr                // RPC reply: SYSTEM_ERR
	KindRPCMismatch              // RPC reply: RPC_MISMATCH
	KindAuthError                // RPC reply: AUTH_ERROR
	KindErrVers                  // RDMA_ERROR: ERR_VERS
	KindErrChunk                 // RDMA_ERROR: ERR_CHUNK
	KindNonsense                 // something that does not decode
	KindDropped                  // no answer, but the call after it was answered
	KindTerminated               // a Terminate
	KindClosed                   // the connection ended without a Terminate
	KindRejected                 // an MPA Reply with R=1
	KindAccepted                 // an MPA Reply with R=0, if the try needs no more
)

var kindNames = [...]string{
	KindSilent: "silence", KindAnswered: "answered", KindGarbageArgs: "GARBAGE_ARGS", KindProgUnavail: "PROG_UNAVAIL",
	KindProgMismatch: "PROG_MISMATCH", KindProcUnavail: "PROC_UNAVAIL", KindSystemErr: "SYSTEM_ERR",
	KindRPCMismatch: "RPC_MISMATCH", KindAuthError: "AUTH_ERROR", KindErrVers: "ERR_VERS", KindErrChunk: "ERR_CHUNK",
	KindNonsense: "nonsense", KindDropped: "no answer", KindTerminated: "Terminate", KindClosed: "closed",
	KindRejected: "rejected", KindAccepted: "accepted",
}

// String returns the kind as the report names it.
func (k Kind) String() string { return kindNames[k] }

// Verdict says whether an answer is right.
type Verdict uint8

// The verdicts, from good to bad.
const (
	OK        Verdict = iota // what the documents name
	Tolerated                // something that they allow, or that a known peer does without harm
	Fails                    // something else
)

// String returns "ok", "tolerated" or "fails".
func (v Verdict) String() string { return [...]string{"ok", "tolerated", "fails"}[v] }
