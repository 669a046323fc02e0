package rdmap

import "github.com/stag-rdma/stag/rdmap/verbs"

const (
	extBase verbs.Extensions = 0 // RFC 5040: always
	extAll                   = verbs.ExtCommit<<1 - 1
)

// normal drops unknown bits and adds what others include.
func normal(x verbs.Extensions) verbs.Extensions {
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
	verbs.OpWrite:               {extBase, -1, -1},
	verbs.OpReadRequest:         {extBase, 28, 28},
	verbs.OpReadResponse:        {extBase, -1, -1},
	verbs.OpSend:                {extBase, -1, -1},
	verbs.OpSendInvalidate:      {extBase, -1, -1},
	verbs.OpSendSE:              {extBase, -1, -1},
	verbs.OpSendSEInvalidate:    {extBase, -1, -1},
	verbs.OpTerminate:           {extBase, 4, -1},
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

// asks reports whether op is a request, which goes to queue 1 and gets a response.
func asks(op verbs.Opcode) bool { return 1<<op&requestOps != 0 }

const requestOps = 1<<verbs.OpReadRequest | 1<<verbs.OpAtomicRequest | 1<<verbs.OpFlushRequest | 1<<verbs.OpVerifyRequest |
	1<<verbs.OpAtomicWriteRequest

// payload returns how many octets of payload wr has.
func payload(wr *verbs.WR) int { return len(wr.Head) + len(wr.Body) }

// misuse returns the error for misuse that can be detected without the connection, or nil.
func misuse(wr *verbs.WR) error {
	if wr.InvalidateSink && wr.Op != verbs.OpReadRequest {
		return verbs.ErrBadWR
	}
	switch wr.Op {
	case verbs.OpSend, verbs.OpSendSE, verbs.OpSendInvalidate, verbs.OpSendSEInvalidate, verbs.OpWrite:
		if uint64(payload(wr)) > maxMessage {
			return verbs.ErrTooLong
		}
	case verbs.OpReadRequest:
		if payload(wr) != 0 {
			return verbs.ErrBadWR
		}
	case verbs.OpImmediate, verbs.OpImmediateSE, verbs.OpAtomicWriteRequest:
		if payload(wr) != immediateLen {
			return verbs.ErrBadWR
		}
	case verbs.OpFlushRequest:
		if payload(wr) != 0 {
			return verbs.ErrBadWR
		}
	case verbs.OpVerifyRequest:
		if payload(wr) > maxHash {
			return verbs.ErrBadWR
		}
	case verbs.OpAtomicRequest:
		if payload(wr) != 0 || wr.Atomic == nil || wr.Atomic.Op > verbs.AtomicCmpSwap {
			return verbs.ErrBadWR
		}
	default:
		return verbs.ErrBadWR
	}
	return nil
}

// extensionOf returns the extensions that wr is part of.
func extensionOf(wr *verbs.WR) verbs.Extensions {
	if wr.Op == verbs.OpAtomicRequest && wr.Atomic.Op == verbs.AtomicSwap {
		return verbs.Ext7306 | verbs.ExtSwap
	}
	return forms[wr.Op].ext
}

// maxMessage is the length of the largest DDP message, octets (RFC 5041 Section 5.2).
const maxMessage = 1<<32 - 1
