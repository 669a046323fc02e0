package rpcrdma

import (
	"encoding/binary"

	"github.com/stag-rdma/stag/xdr"
)

// Defer goes on with a call whose verdict is Pull but whose data are to stay at the
// peer until the handler asks for them. Its verdict is one of these:
//
//	Dispatch  in.RPC and in.Args are the reduced call, views of in.Payload, and
//	          in.Reduced says what is missing from it
//	Answer    the chunks disagree with the inline counts
//	Pull      a long call, whose arguments are in chunks themselves: it must be pulled
//	          whole
//
// The owner does those of in.Layout.Pulls that the handler wants, in any order, before
// Reply: the reply tells the peer that nobody accesses its memory any more (RFC 8166
// Section 3.5.3).
func (r *Responder) Defer(in *Inbound) Verdict {
	if in.Layout.Long {
		return Pull
	}
	end := 0
	for i := range in.Layout.Chunks {
		// Choice: a chunk directly after another, without a count word of its own in the
		// reduced stream, is refused; see checkCounts.
		pos, n := in.Reduced(i)
		if pos < end+4 || n < 0 || !in.Layout.Chunks[i].Holds(n) {
			return r.answer(in, refuseGarbageArgs, ErrItemLength)
		}
		end = pos
	}
	return r.dispatch()
}

// Reduced returns the offset in Args at which the data of chunk i of Layout.Chunks are
// missing, just after their count word, and the count, in octets. It is for calls that
// were deferred. If the offset is not in Args, the count is -1.
func (in *Inbound) Reduced(i int) (pos, n int) {
	missing := 0
	for _, c := range in.Layout.Chunks[:i] {
		missing += c.Len + xdr.Pad(c.Len)
	}
	pos = in.Layout.Chunks[i].Pos - missing - (len(in.Payload) - len(in.Args))
	if pos < 4 || pos > len(in.Args) {
		return pos, -1
	}
	if v := binary.BigEndian.Uint32(in.Args[pos-4:]); v <= 1<<30 {
		return pos, int(v)
	}
	return pos, -1
}

// Unreduced returns the octets of the arguments with all data and pads in place, for a
// call that was deferred.
func (in *Inbound) Unreduced() int { return in.Layout.Total - (len(in.Payload) - len(in.Args)) }
