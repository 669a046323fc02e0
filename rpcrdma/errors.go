package rpcrdma

import (
	"errors"
	"fmt"

	"github.com/stag-rdma/stag/internal/setting"
)

// Action is what a responder does with a header that it cannot use (RFC 8166 Section 4.5). A
// requester always drops such messages.
type Action uint8

// Values of [Action].
const (
	ActDrop     Action = iota // say nothing
	ActErrVers                // answer RDMA_ERROR, ERR_VERS 1 to 1
	ActErrChunk               // answer RDMA_ERROR, ERR_CHUNK
)

// String returns "drop", "ERR_VERS" or "ERR_CHUNK".
func (a Action) String() string {
	switch a {
	case ActErrVers:
		return "ERR_VERS"
	case ActErrChunk:
		return "ERR_CHUNK"
	default:
		return "drop"
	}
}

// HeaderError is the error of [Header.Decode]: what to do, and why. Err is one
// of the sentinels below or an *xdr.DecodeError of package chunks.
type HeaderError struct {
	Action Action
	Err    error
}

// Error returns, for example, "rpcrdma: header: unknown rdma_proc (ERR_CHUNK)".
func (e *HeaderError) Error() string {
	return fmt.Sprintf("rpcrdma: header: %v (%v)", e.Err, e.Action)
}

// Unwrap returns the cause.
func (e *HeaderError) Unwrap() error { return e.Err }

// Causes of a [HeaderError].
var (
	// ErrRunt: too short to be a header of its type (RFC 8166 Section 4.5).
	ErrRunt = errors.New("too short")
	// ErrVersion: rdma_vers is not 1 (RFC 8166 Section 4.5.1).
	ErrVersion = errors.New("unknown rdma_vers")
	// ErrProc: unknown rdma_proc (RFC 8166 Section 4.5.2).
	ErrProc = errors.New("unknown rdma_proc")
	// ErrCodeUnknown: an RDMA_ERROR with an unknown rdma_err.
	ErrCodeUnknown = errors.New("unknown rdma_err")
)

// Why a message was dropped or a call refused, with a header that decodes.
var (
	// errType: a message type that is not allowed here.
	errType = errors.New("rpcrdma: message type not expected")
	// errDirection: a call at a requester or a reply at a responder.
	errDirection = errors.New("rpcrdma: message goes the wrong way")
	// ErrUnknownXID: no call with this XID is outstanding.
	ErrUnknownXID = errors.New("rpcrdma: unknown XID")
	// errXID: rdma_xid differs from the XID of the RPC message.
	errXID = errors.New("rpcrdma: XIDs of header and RPC message differ")
	// ErrRPC: the octets are not an RPC message, or are shorter than its header.
	ErrRPC = errors.New("rpcrdma: RPC message does not decode")
	// ErrNotEligible: an item was reduced that the binding does not allow
	// (RFC 8166 Section 6.1).
	ErrNotEligible = errors.New("rpcrdma: reduced item is not DDP-eligible")
	// errNotReduced: an eligible result came inline although a write chunk was
	// offered (RFC 8166 Section 4.3.2).
	errNotReduced = errors.New("rpcrdma: eligible result left inline")
	// errItemLength: a chunk's length disagrees with the inline count.
	errItemLength = errors.New("rpcrdma: chunk length differs from count")
	// ErrArgs: the arguments do not decode up to the reduced item.
	ErrArgs = errors.New("rpcrdma: arguments do not decode")
	// ErrPadding: an RDMA_MSGP with an invalid alignment, or with items that no binding can find.
	ErrPadding = errors.New("rpcrdma: padded message cannot be decoded")
	// errNotRead: the chunks of a reply were not read, because nobody waits for it.
	errNotRead = errors.New("rpcrdma: reply was not read")
	// errReadList: a reply has a read list (RFC 8166 Section 4.3.1).
	errReadList = errors.New("rpcrdma: reply has a read list")
	// errNoReplyChunk: a long reply that did not use an offered reply chunk.
	errNoReplyChunk = errors.New("rpcrdma: long reply without a reply chunk")
	// errNoChunks: a call with chunks, in a direction without chunks (RFC 8167 Section 5.3).
	errNoChunks = errors.New("rpcrdma: chunks are not taken in this direction")
	// ErrNoFit: the reply fits neither inline nor into the offered chunks.
	ErrNoFit = errors.New("rpcrdma: reply does not fit")
)

// BindingError says for which procedure no binding lets data travel in chunks. errors.Is(err, ErrNotEligible)
// holds.
type BindingError struct{ Prog, Vers, Proc uint32 }

// Error names the procedure, and what to set.
func (e *BindingError) Error() string {
	return fmt.Sprintf("no Binding lets data of program %#x, version %d, procedure %d travel in chunks (set Config.Binding to one that does)", e.Prog, e.Vers, e.Proc)
}

// Is reports whether target is ErrNotEligible.
func (e *BindingError) Is(target error) bool { return target == ErrNotEligible }

// Misuse by the owner of a machine.
var (
	// ErrConfig: a setting is out of range; the message names it, its value and its range. It is that of package rpc.
	ErrConfig = setting.ErrRange
	// ErrNoCredit: no credit now; try again after a reply.
	ErrNoCredit = errors.New("rpcrdma: no credit")
	// ErrXIDInUse: a call with this XID is outstanding.
	ErrXIDInUse = errors.New("rpcrdma: XID in use")
	// ErrTooLong: the header alone exceeds the peer's receive size.
	ErrTooLong = errors.New("rpcrdma: header exceeds the inline threshold")
	// ErrInline: the call is longer than a Send, and this direction has no chunks.
	ErrInline = errors.New("rpcrdma: call exceeds the inline threshold of a direction without chunks")
	// ErrMemory: Call.Memory is not what Call.Plan asked for.
	ErrMemory = errors.New("rpcrdma: registered memory differs from the plan")
)

// RemoteError is an RDMA_ERROR that answered a call: the peer refuses it for
// good; the connection lives (RFC 8166 Section 4.5).
type RemoteError struct {
	Code      ErrCode
	Low, High uint32 // ERR_VERS: versions the peer serves
}

// Error returns, for example, "rpcrdma: peer answered ERR_CHUNK".
func (e *RemoteError) Error() string {
	if e.Code == ErrVers {
		return fmt.Sprintf("rpcrdma: peer answered %v, serves versions %d to %d", e.Code, e.Low, e.High)
	}
	return fmt.Sprintf("rpcrdma: peer answered %v", e.Code)
}

// ProtocolError is a reply that breaks the protocol: its call fails for good;
// the connection lives. Err is a sentinel of this package, chunks.ErrReturned,
// or an *xdr.DecodeError.
type ProtocolError struct {
	XID uint32
	Err error
}

// Error names the call and the cause.
func (e *ProtocolError) Error() string {
	return fmt.Sprintf("rpcrdma: bad reply to XID 0x%08x: %v", e.XID, e.Err)
}

// Unwrap returns the cause.
func (e *ProtocolError) Unwrap() error { return e.Err }
