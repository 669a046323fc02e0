package engine

import "github.com/stag-rdma/stag/rdmap/verbs"

const (
	ExtBase verbs.Extensions = 0                      // RFC 5040: always
	extAll                   = verbs.ExtCommit<<1 - 1 // every extension
)

// Normal drops unknown bits and adds what others include.
func Normal(x verbs.Extensions) verbs.Extensions {
	if x&verbs.ExtSwap != 0 {
		x |= verbs.Ext7306
	}
	return x & extAll
}

// form is what a message of an opcode must look like besides T bit and queue: the extension that it belongs to, and the
// payload octets that it may have.
type form struct {
	ext      verbs.Extensions
	min, max int // -1: any, as far as the receive has room
}

var forms = [...]form{
	verbs.OpWrite:               {ExtBase, -1, -1},
	verbs.OpReadRequest:         {ExtBase, 28, 28},
	verbs.OpReadResponse:        {ExtBase, -1, -1},
	verbs.OpSend:                {ExtBase, -1, -1},
	verbs.OpSendInvalidate:      {ExtBase, -1, -1},
	verbs.OpSendSE:              {ExtBase, -1, -1},
	verbs.OpSendSEInvalidate:    {ExtBase, -1, -1},
	verbs.OpTerminate:           {ExtBase, 4, -1},
	verbs.OpImmediate:           {verbs.Ext7306, 8, 8},
	verbs.OpImmediateSE:         {verbs.Ext7306, 8, 8},
	verbs.OpAtomicRequest:       {verbs.Ext7306, 52, 52},
	verbs.OpAtomicResponse:      {verbs.Ext7306, 12, 12},
	verbs.OpFlushRequest:        {verbs.ExtCommit, 20, 20},
	verbs.OpFlushResponse:       {verbs.ExtCommit, 0, 0},
	verbs.OpVerifyRequest:       {verbs.ExtCommit, 16, 16 + 64},
	verbs.OpVerifyResponse:      {verbs.ExtCommit, 1, 64},
	verbs.OpAtomicWriteRequest:  {verbs.ExtCommit, 24, 24},
	verbs.OpAtomicWriteResponse: {verbs.ExtCommit, 0, 0},
}

// isMessage reports whether op is delivered to the upper layer: a Send or Immediate
// Data.
func isMessage(op verbs.Opcode) bool {
	return op.IsSend() || op == verbs.OpImmediate || op == verbs.OpImmediateSE
}

// Asks reports whether op is a request, which goes to queue 1 and gets a response.
func Asks(op verbs.Opcode) bool { return 1<<op&requestOps != 0 }

const requestOps = 1<<verbs.OpReadRequest | 1<<verbs.OpAtomicRequest | 1<<verbs.OpFlushRequest | 1<<verbs.OpVerifyRequest |
	1<<verbs.OpAtomicWriteRequest

// Payload returns how many octets of payload wr has.
func Payload(wr *verbs.WR) int { return len(wr.Head) + len(wr.Body) }

// Misuse returns the error for misuse that can be detected without the connection, or nil.
func Misuse(wr *verbs.WR) error {
	if wr.InvalidateSink && wr.Op != verbs.OpReadRequest {
		return verbs.ErrBadWR
	}
	switch wr.Op {
	case verbs.OpSend, verbs.OpSendSE, verbs.OpSendInvalidate, verbs.OpSendSEInvalidate, verbs.OpWrite:
		if uint64(Payload(wr)) > MaxMessage {
			return verbs.ErrTooLong
		}
	case verbs.OpReadRequest:
		if Payload(wr) != 0 {
			return verbs.ErrBadWR
		}
	case verbs.OpImmediate, verbs.OpImmediateSE, verbs.OpAtomicWriteRequest:
		if Payload(wr) != immediateLen {
			return verbs.ErrBadWR
		}
	case verbs.OpFlushRequest:
		if Payload(wr) != 0 {
			return verbs.ErrBadWR
		}
	case verbs.OpVerifyRequest: // of any length up to that: only the peer knows its hash
		if Payload(wr) > maxHash {
			return verbs.ErrBadWR
		}
	case verbs.OpAtomicRequest:
		if Payload(wr) != 0 || wr.Atomic == nil || wr.Atomic.Op > verbs.AtomicCmpSwap {
			return verbs.ErrBadWR
		}
	default:
		return verbs.ErrBadWR
	}
	return nil
}

// ExtensionOf returns the extensions that wr is part of.
func ExtensionOf(wr *verbs.WR) verbs.Extensions {
	if wr.Op == verbs.OpAtomicRequest && wr.Atomic.Op == verbs.AtomicSwap {
		return verbs.Ext7306 | verbs.ExtSwap
	}
	return forms[wr.Op].ext
}

// MaxMessage is the length of the largest DDP message, octets (RFC 5041 Section 5.2).
const MaxMessage = 1<<32 - 1
