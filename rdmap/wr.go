package rdmap

import "github.com/stag-rdma/stag/rdmap/region"

// Completer is told once that a work request is over: nil for success, else why
// not. Complete must not block and must not call Wait; it may run in any
// goroutine, and is never called with a lock of the Conn held.
type Completer interface{ Complete(err error) }

// WR is one work request. The zero value of every field not named below for its
// Op is right.
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
// A payload is at most 2^32-1 octets (RFC 5041 Section 5.2). When it is at
// most CopyLimit octets Head and Body are copied by Post. A longer one has its
// Head copied and its Body borrowed until Done completes.
//
// Done completes a Send or a Write when its last octet has been handed to the
// socket (that says nothing about the peer, RFC 5040 Section 5.5), a Read when its last
// octet has been placed, any other request when its response has come. Work requests of
// a connection complete in the order of their submission. A nil Done is fire and forget:
// an error then shows on the connection only.
type WR struct {
	Op   Opcode
	Head []byte
	Body []byte
	STag region.STag // remote
	TO   uint64      // remote
	// The local sink of a Read: a region of this connection's table with the
	// right region.ReadSink. It has to be there until the Read is complete: a sink that
	// has gone before the request is sent ends the connection, see ErrSinkLost.
	Sink   region.STag
	SinkTO uint64
	// InvalidateSink makes Sink invalid before Done completes with success: a region
	// registered for one Read. (After a failure call Region.Invalidate, which waits until
	// nobody touches the memory.)
	InvalidateSink bool
	Len            uint32
	Done           Completer
	Flags          FlushFlags // of a Flush
	// Atomic says what an Atomic Request does; it is borrowed until Post returns.
	Atomic *Atomic
	// Answer takes what comes back; it is lent until Done completes. May be nil.
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
