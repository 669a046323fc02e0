package rpcrdma

import (
	"github.com/stag-rdma/stag/chunks"
	"github.com/stag-rdma/stag/xdr"
)

// Verdict is what the owner of a [Responder] has to do next with a received Send.
type Verdict uint8

// Values of [Verdict].
const (
	// Drop: nothing is sent, nothing else is due.
	Drop Verdict = iota
	// Answer: send the output of AppendAnswer. Nothing is executed.
	Answer
	// Dispatch: execute the call in Inbound.RPC and Inbound.Args, then Reply.
	Dispatch
	// Pull: assemble the call as Inbound.Layout says, then call Pulled.
	Pull
	// Done: an RDMA_DONE. Revoke and free the memory of Inbound.Done; then replies
	// that were withheld may leave.
	Done
)

// String returns "drop", "answer", "dispatch", "pull" or "done".
func (v Verdict) String() string {
	return [...]string{"drop", "answer", "dispatch", "pull", "done"}[min(v, Done)]
}

// Inbound is one call at a responder, from Receive to Reply. It may be reused
// for another once replied or dropped; it keeps its memory.
type Inbound struct {
	// Header is the header of the call. Its write list and reply chunk are
	// changed by Reply, which returns them.
	Header Header
	// Payload is the inline payload stream: a view of the Send, lent as long.
	// Empty for a long call.
	Payload []byte
	// Layout says how the call comes together; set with Pull.
	Layout chunks.Layout
	// RPC and Args are the call, set with Dispatch: views of the Send, or of the
	// buffer given to Pulled. If RPC.RPCVers is not 2, the rest of RPC is not
	// set, Args mean nothing and the answer is an RPC_MISMATCH.
	RPC  xdr.CallHeader
	Args []byte
	// Done is the exposed reply that the peer has read; set with Done.
	Done *Reply
	// Err says why the verdict is Drop or Answer.
	Err error

	refusal refusal
	one     chunks.Handle // the only handle of all chunks,
	hasOne  bool          // if there is just one
}

// refusal is which answer AppendAnswer makes.
type refusal uint8

const (
	refuseErrChunk refusal = iota
	refuseErrVers
	refuseGarbageArgs
)

// Reset forgets the call and all views and keeps memory.
func (in *Inbound) Reset() {
	in.Header.reset()
	in.Layout.Reset()
	in.RPC = xdr.CallHeader{} // alone: in a list of assignments it would be copied from the stack
	in.Payload, in.Args, in.Done, in.Err = nil, nil, nil, nil
	in.refusal, in.one, in.hasOne = 0, 0, false
}

// Room returns the octets that write chunk i of the call offers. ok says that the
// chunk is there and has segments: then result i, if it exists, goes there and must not
// be longer (RFC 8166 Section 4.3.2). Valid until Reply.
func (in *Inbound) Room(i int) (n uint64, ok bool) {
	if i >= len(in.Header.Write) || len(in.Header.Write[i]) == 0 {
		return 0, false
	}
	return in.Header.Write[i].Room(), true
}

// findHandle finds out whether all segments of all chunks have the same handle.
func (in *Inbound) findHandle() {
	in.hasOne = false
	n := 0
	for i := range in.Header.Read {
		in.note(in.Header.Read[i].Handle, &n)
	}
	for _, w := range in.Header.Write {
		for i := range w {
			in.note(w[i].Handle, &n)
		}
	}
	for i := range in.Header.Reply {
		in.note(in.Header.Reply[i].Handle, &n)
	}
	in.hasOne = n == 1
}

// note counts the handle if it is not the one noted last.
func (in *Inbound) note(h chunks.Handle, n *int) {
	if *n == 0 || h != in.one {
		in.one = h
		*n++
	}
}
