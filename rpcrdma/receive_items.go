package rpcrdma

import (
	"github.com/stag-rdma/stag/chunks"
	"github.com/stag-rdma/stag/xdr"
)

// checkItems is checkArg for programs that can have several eligible arguments: every chunk
// must be exactly at one, and as long as its count, padded or not.
func (r *Responder) checkItems(in *Inbound, l chunks.Lister, n int) Verdict {
	list, call := in.Layout.Chunks, &in.RPC
	whole := n == in.Layout.Total // Args has the data of the chunks
	shift, k := n-len(in.Args), 0
	var bad error
	ok := l.ListArgs(call.Prog, call.Vers, call.Proc, in.Args, func(pos, count int) int {
		inline := count + xdr.Pad(count)
		if k == len(list) || list[k].Pos != shift+pos {
			return inline
		}
		if !list[k].Holds(count) {
			bad = ErrItemLength
			return -1
		}
		k++
		if whole {
			return inline
		}
		shift += inline
		return 0
	})
	switch {
	case bad != nil:
		return r.answer(in, refuseGarbageArgs, bad)
	case k < len(list): // whatever ok is: the walk fails where the data of a chunk are missing
		return r.answer(in, refuseErrChunk, ErrNotEligible)
	case !ok && len(list) == 0:
		return r.answer(in, refuseGarbageArgs, ErrArgs)
	}
	return Dispatch
}
