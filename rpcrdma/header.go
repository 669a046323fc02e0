package rpcrdma

import (
	"encoding/binary"
	"strconv"

	"github.com/stag-rdma/stag/chunks"
	"github.com/stag-rdma/stag/xdr"
)

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

// Header is an RPC-over-RDMA header (RFC 8166 Section 4.1, RFC 8166 Section
// 4.2), in the first octets of one Send:
//
//	octets  field        note
//	4       rdma_xid     equals the XID of the RPC message
//	4       rdma_vers    1; in an RDMA_ERROR that of the request
//	4       rdma_credit  asked in calls, granted in replies
//	4       rdma_proc    Type
//
//	RDMA_MSG, RDMA_NOMSG  lists
//	RDMA_MSGP             rdma_align, rdma_thresh, lists
//	RDMA_DONE             nothing
//	RDMA_ERROR            rdma_err; ERR_VERS: low, high
//
// Fields that a type does not have are 0 after Decode, and Append does not write them.
type Header struct {
	XID    uint32
	Vers   uint32 // written as it stands
	Credit uint32
	Type   MsgType

	Align, Thresh uint32 // RDMA_MSGP: octets

	chunks.Lists // RDMA_MSG, RDMA_NOMSG, RDMA_MSGP

	Err       ErrCode // RDMA_ERROR
	Low, High uint32  // ERR_VERS: versions served
}

// Size returns the number of octets that Append adds.
func (h *Header) Size() int {
	switch h.Type {
	case MsgTypeMsg, MsgTypeNoMsg:
		return FixedSize + h.Lists.Size()
	case MsgTypeMsgP:
		return FixedSize + 8 + h.Lists.Size()
	case MsgTypeError:
		if h.Err == ErrVers {
			return errorVersSize
		}
		return errorChunkSize
	default: // RDMA_DONE
		return FixedSize
	}
}

// Append appends the header. It allocates nothing if b has the room.
func (h *Header) Append(b []byte) []byte {
	b = xdr.AppendUint32(b, h.XID)
	b = xdr.AppendUint32(b, h.Vers)
	b = xdr.AppendUint32(b, h.Credit)
	b = xdr.AppendUint32(b, uint32(h.Type))
	switch h.Type {
	case MsgTypeMsg, MsgTypeNoMsg:
		b = h.Lists.Append(b)
	case MsgTypeMsgP:
		b = xdr.AppendUint32(b, h.Align)
		b = xdr.AppendUint32(b, h.Thresh)
		b = h.Lists.Append(b)
	case MsgTypeError:
		b = xdr.AppendUint32(b, uint32(h.Err))
		if h.Err == ErrVers {
			b = xdr.AppendUint32(b, h.Low)
			b = xdr.AppendUint32(b, h.High)
		}
	case MsgTypeDone: // nothing after the fixed words
	}
	return b
}

// appendShortHeader appends the header of an RDMA_MSG without chunks.
func appendShortHeader(b []byte, xid, credit uint32) []byte {
	n := len(b)
	b = append(b, make([]byte, MinHeaderSize)...)
	h := b[n : n+MinHeaderSize]
	binary.BigEndian.PutUint32(h, xid)
	binary.BigEndian.PutUint32(h[4:], Version)
	binary.BigEndian.PutUint32(h[8:], credit)
	binary.BigEndian.PutUint32(h[12:], uint32(MsgTypeMsg))
	return b
}

// Decode reads a header from the first octets of a Send and returns its size n; the payload
// stream of RDMA_MSG is b[n:]. It borrows b and retains nothing of it. lim bounds the lists (nil:
// defaults). It does not check rules about Positions, direction or profile.
//
// The error is a *HeaderError. If b has at least 16 octets, XID, Vers, Credit and Type are set
// even with an error, so that an answer can be built. Octets after RDMA_NOMSG, RDMA_DONE and
// RDMA_ERROR are ignored.
//
// Choice: RFC 8166 Section 4.5 demands that everything below 28 octets is dropped, although its
// own ERR_CHUNK has 20 octets and RDMA_DONE 16. The fixed words are read first and each type has
// its own minimum. rdma_proc comes before rdma_vers, because an RDMA_ERROR carries the version of
// the request it answers.
func (h *Header) Decode(b []byte, lim *chunks.Limits) (n int, err error) {
	h.reset()
	if len(b) < FixedSize {
		return 0, refuse(ActDrop, ErrRunt)
	}
	h.XID = binary.BigEndian.Uint32(b)
	h.Vers = binary.BigEndian.Uint32(b[4:])
	h.Credit = binary.BigEndian.Uint32(b[8:])
	h.Type = MsgType(binary.BigEndian.Uint32(b[12:]))
	switch {
	case h.Type == MsgTypeError:
		return h.decodeError(b)
	case h.Vers != Version && len(b) < minVersionOther:
		return 0, refuse(ActDrop, ErrRunt)
	case h.Vers != Version:
		return 0, refuse(ActErrVers, ErrVersion)
	case h.Type == MsgTypeDone:
		return FixedSize, nil
	case len(b) < MinHeaderSize:
		return 0, refuse(ActDrop, ErrRunt)
	case h.Type > MsgTypeMsgP:
		return 0, refuse(ActErrChunk, ErrProc)
	}
	return h.decodeLists(b, lim)
}

// reset makes h the zero Header, but keeps the memory of the lists.
func (h *Header) reset() {
	h.XID, h.Vers, h.Credit, h.Type = 0, 0, 0, 0
	h.Align, h.Thresh, h.Err, h.Low, h.High = 0, 0, 0, 0, 0
	h.Lists.Reset()
}

func refuse(a Action, err error) error { return &HeaderError{a, err} }

func (h *Header) decodeLists(b []byte, lim *chunks.Limits) (int, error) {
	if h.Type != MsgTypeMsgP && binary.BigEndian.Uint64(b[FixedSize:])|uint64(binary.BigEndian.Uint32(b[FixedSize+8:])) == 0 {
		return MinHeaderSize, nil // three absent lists, as most messages have them
	}
	d := xdr.NewDecoder(b)
	d.Skip(FixedSize)
	if h.Type == MsgTypeMsgP {
		h.Align, h.Thresh = d.Uint32(), d.Uint32()
	}
	if err := h.Lists.Decode(&d, lim); err != nil {
		return 0, refuse(ActErrChunk, err)
	}
	return d.Offset(), nil
}

// decodeError reads the body of RDMA_ERROR. Whatever is wrong with it, it is
// dropped: nobody answers an answer.
func (h *Header) decodeError(b []byte) (int, error) {
	least := errorChunkSize
	if h.Vers != Version {
		least = minVersionOther
	}
	if len(b) < least {
		return 0, refuse(ActDrop, ErrRunt)
	}
	h.Err = ErrCode(binary.BigEndian.Uint32(b[16:]))
	switch {
	case h.Err == ErrChunk:
		return errorChunkSize, nil
	case h.Err != ErrVers:
		return 0, refuse(ActDrop, ErrCodeUnknown)
	case len(b) < errorVersSize:
		return 0, refuse(ActDrop, ErrRunt)
	}
	h.Low = binary.BigEndian.Uint32(b[20:])
	h.High = binary.BigEndian.Uint32(b[24:])
	return errorVersSize, nil
}
