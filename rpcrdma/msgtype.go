package rpcrdma

import "strconv"

// Version is the protocol version of this package, rdma_vers.
const Version = 1

// Sizes in octets.
const (
	FixedSize       = 16   // the four words that every version has
	MinHeaderSize   = 28   // RDMA_MSG and RDMA_NOMSG with empty lists
	DefaultInline   = 1024 // inline threshold when nothing else is agreed (RFC 8166 Section 3.3.3)
	errorChunkSize  = 20   // RDMA_ERROR with ERR_CHUNK
	errorVersSize   = 28   // RDMA_ERROR with ERR_VERS
	minVersionOther = 28   // of a header of another version
)

// MsgType is rdma_proc, the type of a message (RFC 8166 Section 4.2).
type MsgType uint32

// Values of [MsgType].
const (
	MsgTypeMsg   MsgType = 0 // RDMA_MSG: lists, then the RPC message inline
	MsgTypeNoMsg MsgType = 1 // RDMA_NOMSG: lists only, the message is in a chunk
	MsgTypeMsgP  MsgType = 2 // RDMA_MSGP: padded inline message (RFC 5666 Section 4.1)
	MsgTypeDone  MsgType = 3 // RDMA_DONE: the reply's chunks were read (RFC 5666 Section 4.1)
	MsgTypeError MsgType = 4 // RDMA_ERROR: the call was refused
)

var msgTypeNames = [...]string{"RDMA_MSG", "RDMA_NOMSG", "RDMA_MSGP", "RDMA_DONE", "RDMA_ERROR"}

// String returns the RFC's spelling, or MsgType(0x2a) for an unknown value.
func (t MsgType) String() string {
	if uint64(t) < uint64(len(msgTypeNames)) {
		return msgTypeNames[t]
	}
	return "MsgType(0x" + strconv.FormatUint(uint64(t), 16) + ")"
}

// ErrCode is rdma_err, the reason in an RDMA_ERROR (RFC 8166 Section 4.5).
type ErrCode uint32

// Values of [ErrCode].
const (
	ErrVers  ErrCode = 1 // ERR_VERS: version not served; low and high follow
	ErrChunk ErrCode = 2 // ERR_CHUNK: header or chunks not usable
)

// String returns the RFC's spelling, or ErrCode(0x2a) for an unknown value.
func (e ErrCode) String() string {
	switch e {
	case ErrVers:
		return "ERR_VERS"
	case ErrChunk:
		return "ERR_CHUNK"
	}
	return "ErrCode(0x" + strconv.FormatUint(uint64(e), 16) + ")"
}

// Profile is the document a connection keeps to.
type Profile uint8

// Values of [Profile].
const (
	// RFC8166, the default: never sends what RFC 8166 forbids, and refuses
	// RDMA_MSGP, RDMA_DONE and reply read lists.
	RFC8166 Profile = iota
	// RFC5666 also sends and accepts what RFC 8166 dropped: RDMA_MSGP, replies
	// with a read list and the RDMA_DONE that follows them.
	RFC5666
)

// String returns "rfc8166" or "rfc5666".
func (p Profile) String() string {
	if p == RFC5666 {
		return "rfc5666"
	}
	return "rfc8166"
}
