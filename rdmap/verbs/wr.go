package verbs

import "github.com/stag-rdma/stag/rdmap/region"

// Completer is told when a work request is over. Complete is called once, with nil for success or
// with the error. It must not block and must not call Wait. It may run in any goroutine, and is never
// called with a lock of the Conn held.
type Completer interface{ Complete(err error) }

// WR is one work request. Fields that are not named below for its Op must be zero.
//
//	Op                                     payload     uses
//	OpSend, OpSendSE                       Head+Body
//	OpSendInvalidate, OpSendSEInvalidate   Head+Body   STag: the peer's STag to invalidate
//	OpWrite                                Head+Body   STag, TO: the place at the peer
//	OpReadRequest                          none        STag, TO, Len: the source; Sink, SinkTO: the sink; InvalidateSink
//	OpImmediate, OpImmediateSE             Head+Body   8 octets
//	OpFlushRequest                         none        STag, TO, Len: the octets; Flags
//	OpVerifyRequest                        Head+Body   STag, TO, Len: the octets; payload: the expected hash, or none; Answer
//	OpAtomicWriteRequest                   Head+Body   STag, TO: the word; 8 octets
//	OpAtomicRequest                        none        STag, TO: the word; Atomic; Answer
//
// A payload has at most 2^32-1 octets (RFC 5041 Section 5.2). If it has at most CopyLimit octets,
// Post copies Head and Body. Otherwise Post copies Head, and borrows Body until Done completes.
//
// Done is called when the work request is over: for a Send or a Write, when its last octet has been
// handed to the socket, which says nothing about the peer (RFC 5040 Section 5.5); for a Read, when its
// last octet has been placed; for any other request, when its response has arrived. Work requests of a
// connection complete in the order of their submission. Done may be nil; an error then shows only on
// the connection.
type WR struct {
	Op   Opcode
	Head []byte
	Body []byte
	STag region.STag // of the peer
	TO   uint64      // at the peer
	// Sink and SinkTO are the local sink of a Read: a region of this connection's table with the
	// right region.ReadSink. It must stay registered until the Read is complete: if it is gone before
	// the request is sent, the connection ends with ErrSinkLost.
	Sink   region.STag
	SinkTO uint64
	// InvalidateSink invalidates Sink before Done is called with success, for a region registered
	// for one Read. After a failure call Region.Invalidate, which waits until nobody touches the
	// memory.
	InvalidateSink bool
	Len            uint32
	Done           Completer
	Flags          FlushFlags // of a Flush
	// Atomic says what an Atomic Request does; it is borrowed until Post returns.
	Atomic *Atomic
	// Answer receives the result. It is lent until Done is called, and may be nil.
	Answer *Answer
}

// CopyLimit is the largest payload in octets that Post copies.
const CopyLimit = 4096

// UpcallCompleter is the Completer of a request, such as an RDMA Read, whose completion starts
// longer work. In Serve, CompleteUpcall is called instead of Complete(nil), in the goroutine that
// has read the response, so that no other has to be woken. It is an upcall like HandleRecv, under
// Reading.HandlerLimit. Complete is still called when the request fails, outside Serve, when
// another goroutine completes the request, and when later work requests complete at the same
// time. Then the implementation itself must avoid blocking the caller.
type UpcallCompleter interface {
	Completer
	CompleteUpcall()
}
