package rpcrdma

import (
	"errors"

	"github.com/stag-rdma/stag/chunks"
	"github.com/stag-rdma/stag/xdr"
)

// Receive judges a Send from the peer. It borrows send until the call is
// dispatched or, with Pull, until in.Payload was placed; in is reset first.
//
// Verdicts (RFC 8166 Section 4.5; in.Err says why):
//
//	Done           the RDMA_DONE of an exposed reply
//	Drop           runts, other RDMA_DONEs, RDMA_ERROR, replies
//	Answer         other versions (ERR_VERS); bad lists, positions, sizes and XIDs, and
//	               reduced items that are not eligible (ERR_CHUNK); chunks that disagree
//	               with the inline count (GARBAGE_ARGS)
//	Dispatch, Pull every other call
//
// Dropped or not, the Send has used up a posted receive. The inline octets of an
// RDMA_MSGP are closed up inside send, around the longest item, which stays where it is.
func (r *Responder) Receive(send []byte, in *Inbound) Verdict {
	in.Reset()
	n, err := in.Header.Decode(send, &r.cfg.Limits)
	if err == nil && in.Header.Type == MsgTypeDone && r.release(in) {
		return Done
	}
	if !r.credits.Received() {
		r.stats.OverCredit++
	}
	if err != nil {
		return r.badHeader(in, err)
	}
	if r.cfg.NoChunks && in.Header.chunked() {
		return r.answer(in, refuseErrChunk, ErrNoChunks)
	}
	switch in.Header.Type {
	case MsgTypeMsg:
		in.findHandle()
		in.Payload = send[n:]
		return r.receiveMsg(in)
	case MsgTypeNoMsg:
		in.findHandle()
		if err := in.Layout.BuildLong(in.Header.Read, &r.cfg.Limits); err != nil {
			return r.answer(in, refuseErrChunk, err)
		}
		return Pull
	case MsgTypeMsgP:
		return r.receivePadded(in, send, n)
	case MsgTypeDone:
		r.stats.Dones++
	case MsgTypeError: // only for Requesters
	}
	return r.drop(in, ErrType)
}

// receivePadded judges an RDMA_MSGP, which is an RDMA_MSG once its pads are gone.
func (r *Responder) receivePadded(in *Inbound, send []byte, n int) Verdict {
	if r.cfg.Profile != RFC5666 {
		// "MUST return ERR_CHUNK" for a message type that is not supported.
		return r.answer(in, refuseErrChunk, ErrType)
	}
	in.findHandle()
	if _, typ, ok := xdr.PeekXID(send[n:]); ok && typ == xdr.MsgReply {
		return r.drop(in, ErrDirection)
	}
	var err error
	in.Payload, err = closeCall(&in.Header, n, send[n:], r.cfg.Binding)
	switch {
	case errors.Is(err, ErrArgs):
		return r.answer(in, refuseGarbageArgs, err)
	case err != nil:
		return r.answer(in, refuseErrChunk, err)
	}
	r.stats.Padded++
	return r.receiveMsg(in)
}

func (r *Responder) badHeader(in *Inbound, err error) Verdict {
	if he, ok := errors.AsType[*HeaderError](err); ok {
		switch he.Action {
		case ActErrVers:
			return r.answer(in, refuseErrVers, err)
		case ActErrChunk:
			return r.answer(in, refuseErrChunk, err)
		case ActDrop:
		}
	}
	return r.drop(in, err)
}

// receiveMsg judges an RDMA_MSG: everything that can be known before a pull.
func (r *Responder) receiveMsg(in *Inbound) Verdict {
	switch err := checkDirection(in.Payload, in.Header.XID, xdr.MsgCall); {
	case errors.Is(err, ErrDirection):
		return r.drop(in, err)
	case err != nil:
		return r.answer(in, refuseErrChunk, err)
	}
	if err := in.parse(in.Payload); err != nil {
		return r.answer(in, refuseErrChunk, err)
	}
	// A call of another RPC version is answered without its arguments.
	if len(in.Header.Read) == 0 || in.RPC.RPCVers != xdr.RPCVersion {
		return r.dispatch()
	}
	if err := in.Layout.Build(in.Header.Read, len(in.Payload), &r.cfg.Limits); err != nil {
		return r.answer(in, refuseErrChunk, err)
	}
	if v := r.checkArg(in, len(in.Payload)); v != Dispatch {
		return v
	}
	return Pull
}

// Pulled goes on with a call that was pulled: buf is the whole message, at least
// in.Layout.Total octets, laid out as in.Layout says. It is borrowed until the
// call is executed. The verdict is Dispatch or Answer.
//
// A pull that fails has no verdict: it ends the connection (RFC 8166 Section
// 4.5.3), and no handler may see the buffer.
func (r *Responder) Pulled(in *Inbound, buf []byte) Verdict {
	msg := buf[:in.Layout.Total]
	if err := checkDirection(msg, in.Header.XID, xdr.MsgCall); err != nil {
		return r.answer(in, refuseErrChunk, err)
	}
	if err := in.parse(msg); err != nil {
		return r.answer(in, refuseErrChunk, err)
	}
	if in.RPC.RPCVers == xdr.RPCVersion && in.Layout.Long && len(in.Layout.Chunks) > 0 {
		if v := r.checkArg(in, len(msg)); v != Dispatch {
			return v
		}
	}
	if in.RPC.RPCVers == xdr.RPCVersion && r.anyItem(&in.RPC) {
		if err := checkCounts(msg, in.Layout.Chunks); err != nil {
			return r.answer(in, refuseGarbageArgs, err)
		}
	}
	return r.dispatch()
}

func (r *Responder) dispatch() Verdict {
	r.stats.Calls++
	return Dispatch
}

// parse reads the RPC header of msg.
func (in *Inbound) parse(msg []byte) error {
	d := xdr.NewDecoder(msg)
	if err := in.RPC.Parse(&d); err != nil {
		return err
	}
	in.Args = d.Rest()
	return nil
}

// anyItem reports whether any opaque of a program may be reduced: with profile
// RFC5666, when no binding speaks for it (RFC 5666 Section 3.4).
func (r *Responder) anyItem(call *xdr.CallHeader) bool {
	return r.cfg.Profile == RFC5666 && !chunks.Covers(r.cfg.Binding, call.Prog, call.Vers)
}

// checkArg compares the ordinary read chunks with the binding (RFC 8166 Section
// 6.1): one chunk, exactly at the eligible argument, and as long as its count,
// padded or not. in.Args are the end of a stream of n octets, reduced or not.
//
// Choice: chunks that are not eligible are refused. RFC 5667 would ignore them, and so
// execute calls with truncated arguments.
func (r *Responder) checkArg(in *Inbound, n int) Verdict {
	b, call := r.cfg.Binding, &in.RPC
	if call.Cred.Protected() { // RFC 8166 Section 8.2.2.3: not even looked at
		return r.answer(in, refuseErrChunk, ErrNotEligible)
	}
	if r.anyItem(call) {
		if in.Layout.Chunks[0].Pos < n-len(in.Args)+4 { // in the RPC header
			return r.answer(in, refuseErrChunk, ErrNotEligible)
		}
		return Dispatch // Pulled looks at the counts
	}
	if l := chunks.ListerOf(b, call.Prog, call.Vers); l != nil {
		return r.checkItems(in, l, n)
	}
	arg := false
	if b != nil {
		arg, _ = b.Eligible(call.Prog, call.Vers, call.Proc)
	}
	switch {
	case !arg:
		return r.answer(in, refuseErrChunk, &BindingError{call.Prog, call.Vers, call.Proc})
	case len(in.Layout.Chunks) != 1:
		return r.answer(in, refuseErrChunk, ErrNotEligible)
	}
	pos, count, ok := b.FindArg(call.Prog, call.Vers, call.Proc, in.Args)
	at := in.Layout.Chunks[0]
	switch {
	case !ok:
		return r.answer(in, refuseGarbageArgs, ErrArgs)
	case at.Pos != n-len(in.Args)+pos:
		return r.answer(in, refuseErrChunk, ErrNotEligible)
	case !at.Holds(count):
		return r.answer(in, refuseGarbageArgs, ErrItemLength)
	}
	return Dispatch
}
