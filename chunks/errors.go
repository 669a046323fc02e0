package chunks

import "errors"

// What can be wrong with chunk lists that came from a peer. Codecs wrap these
// in an *xdr.DecodeError; test with errors.Is. A responder answers all of them with
// ERR_CHUNK (RFC 8166 Section 4.5.2); ErrReturned is a requester's.
var (
	// ErrTooMany: more segments or chunks than Limits allow.
	ErrTooMany = errors.New("chunks: too many segments")
	// ErrTooLarge: the octets of all segments exceed Limits.MaxOctets.
	ErrTooLarge = errors.New("chunks: too many octets")
	// ErrWrap: a segment ends beyond the 64-bit offset space.
	ErrWrap = errors.New("chunks: segment wraps around")
	// ErrPosition: a Position that is not a multiple of 4, that is out of order,
	// or that is 0 where the stream is inline.
	ErrPosition = errors.New("chunks: bad position")
	// ErrOverlap: a Position inside the data of the chunk before it.
	ErrOverlap = errors.New("chunks: chunks overlap")
	// ErrBeyond: a Position after the end of the stream.
	ErrBeyond = errors.New("chunks: position beyond the stream")
	// ErrNoStream: a long call without a Position Zero chunk.
	ErrNoStream = errors.New("chunks: no position zero chunk")
	// ErrReturned: a reply's chunk is not the chunk that was offered.
	ErrReturned = errors.New("chunks: returned chunk differs from the one offered")
)

// Misuse by the caller, never by a peer.
var (
	// ErrNoRoom: the data do not fit into the offered segments.
	ErrNoRoom = errors.New("chunks: offered segments are too small")
	// ErrItem: items out of order, unaligned, or outside their message.
	ErrItem = errors.New("chunks: bad item")
)
