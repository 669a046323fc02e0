package decode

import (
	"slices"

	"github.com/stag-rdma/stag/chunks"
	"github.com/stag-rdma/stag/nfsdemo/nfs3"
	"github.com/stag-rdma/stag/rpcrdma"
	"github.com/stag-rdma/stag/xdr"
)

// isCompound reports whether a procedure is COMPOUND of NFSv4, or CB_COMPOUND.
func (r *RPC) isCompound() bool {
	return r.Proc == 1 && (r.Prog == nfs3.Program && r.Vers == 4 || r.Prog == progCallback)
}

// compound walks the operations. What travels in chunks is skipped; if padding of an RDMA_MSGP may be left,
// nothing is known.
func (r *RPC) compound(h *rpcrdma.Header) {
	if r.Err != nil || r.Reply == nil && r.Call == nil || r.pads {
		return
	}
	var moved func(at, n int) bool
	switch {
	case r.Whole || h == nil:
	case r.IsReply:
		moved = movedResults(h.Write)
	default:
		moved = movedArguments(h.Read, r.head)
	}
	r.Compound = newCompound(r.Body, r.Prog == progCallback, r.IsReply, moved)
	r.Err = r.Compound.Err
}

// movedResults returns a function that tells which results are in Write chunks: each eligible result takes
// the next chunk (RFC 8267 Section 5.4).
func movedResults(list []chunks.WriteChunk) func(at, n int) bool {
	return func(_, n int) bool {
		if len(list) == 0 {
			return false
		}
		room := list[0].Room()
		list = list[1:]
		return n > 0 && room >= uint64(n)
	}
}

// movedArguments returns a function that tells which arguments are in Read chunks: those whose data would be
// at the Position of a chunk. head is the length of the call before its arguments.
func movedArguments(list []chunks.ReadSegment, head int) func(at, n int) bool {
	return func(at, n int) bool {
		here := func(s chunks.ReadSegment) bool { return int64(s.Position) == int64(head)+int64(at) }
		if !slices.ContainsFunc(list, here) {
			return false
		}
		head += n + xdr.Pad(n)
		return true
	}
}
