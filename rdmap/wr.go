package rdmap

import "github.com/stag-rdma/stag/rdmap/region"

// Completer is called once, when a work request is over, with nil for success or the error.
// Complete must not block and must not call Wait; it may run in any goroutine, and is never
// called with a lock of the Conn held.
type Completer interface{ Complete(err error) }

// WR is one work request. Leave every field zero that is not named below for its Op.
//
//	Op                                     payload     uses
//	OpSend, OpSendSE                       Head+Body
//	OpSendInvalidate, OpSendSEInvalidate   Head+Body   STag: the peer's STag to invalidate
//	OpWrite                                Head+Body   STag, TO: where to at the peer
//	OpReadRequest                          none        STag, TO, Len: where from; Sink, SinkTO: where to; InvalidateSink
//	OpImmediate, OpImmediateSE             Head+Body   8 octets
//	OpFlushRequest                         none        STag, TO, Len: what; Flags
//	OpVerifyRequest                        Head+Body   STag, TO, Len: what; payload: the hash expected, or none; Answer
//	OpAtomicWriteRequest                   Head+Body   STag, TO: the word; 8 octets
//	OpAtomicRequest                        none        STag, TO: the word; Atomic; Answer
//
// A payload has at most 2^32-1 octets (RFC 5041 Section 5.2). If it has at most CopyLimit octets,
// Post copies Head and Body. Otherwise Post copies Head, and borrows Body until Done completes.
//
// Done completes a Send or a Write when its last octet has been handed to the socket (that says
// nothing about the peer, RFC 5040 Section 5.5), a Read when its last octet has been placed, any
// other request when its response has come. Work requests of a connection complete in the order
// of their submission. Done may be nil; an error then shows only on the connection.
type WR struct {
	Op   Opcode
	Head []byte
	Body []byte
	STag region.STag // remote
	TO   uint64      // remote
	// The local sink of a Read: a region of this connection's table with the right
	// region.ReadSink. It must stay registered until the Read is complete: if it is gone before
	// the request is sent, the connection ends, see ErrSinkLost.
	Sink   region.STag
	SinkTO uint64
	// InvalidateSink invalidates Sink before Done completes with success, for a region registered
	// for one Read. (After a failure call Region.Invalidate, which waits until nobody touches the
	// memory.)
	InvalidateSink bool
	Len            uint32
	Done           Completer
	Flags          FlushFlags // of a Flush
	// Atomic says what an Atomic Request does; it is borrowed until Post returns.
	Atomic *Atomic
	// Answer receives the result. It is lent until Done completes. May be nil.
	Answer *Answer
}

// CopyLimit is the payload size up to which Post copies, octets.
const CopyLimit = 4096

// size returns the payload octets of wr.
func (wr *WR) size() int { return len(wr.Head) + len(wr.Body) }

// check reports misuse that can be seen without the connection.
func (wr *WR) check() error {
	if wr.InvalidateSink && wr.Op != OpReadRequest {
		return ErrBadWR
	}
	switch wr.Op {
	case OpSend, OpSendSE, OpSendInvalidate, OpSendSEInvalidate, OpWrite:
		if uint64(wr.size()) > maxMessage {
			return ErrTooLong
		}
	case OpReadRequest:
		if wr.size() != 0 {
			return ErrBadWR
		}
	case OpImmediate, OpImmediateSE, OpAtomicWriteRequest:
		if wr.size() != immediateLen {
			return ErrBadWR
		}
	case OpFlushRequest:
		if wr.size() != 0 {
			return ErrBadWR
		}
	case OpVerifyRequest:
		if wr.size() > maxHash {
			return ErrBadWR
		}
	case OpAtomicRequest:
		if wr.size() != 0 || wr.Atomic == nil || wr.Atomic.Op > AtomicCmpSwap {
			return ErrBadWR
		}
	default:
		return ErrBadWR
	}
	return nil
}

// needs returns the extensions that wr is part of.
func (wr *WR) needs() Extensions {
	if wr.Op == OpAtomicRequest && wr.Atomic.Op == AtomicSwap {
		return Ext7306 | ExtSwap
	}
	return opTable[wr.Op].ext
}

// maxMessage is the largest DDP message, RFC 5041 Section 5.2.
const maxMessage = 1<<32 - 1
