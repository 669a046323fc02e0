package transport

import (
	"github.com/stag-rdma/stag/chunks"
	"github.com/stag-rdma/stag/transport/rpc"
	"github.com/stag-rdma/stag/xdr"
)

// takeItem sets r.Item, so that callers need not care how their result came.
func takeItem(r *rpc.Reply, call *rpc.Call, b chunks.Binding) {
	switch {
	case len(call.Sink) == 0 || len(call.MoreSinks) > 0:
	case r.Placed:
		r.Item = call.Sink[:r.Lens[0]]
	case r.Header.Err() == nil && !call.Cred.Protected():
		takeInline(r, call, b)
	}
}

// takeInline is takeItem for a result that came inline. It leaves alone what it cannot find, and what the
// caller has no room for.
func takeInline(r *rpc.Reply, call *rpc.Call, b chunks.Binding) {
	res := r.Results
	pos, n, ok := b.FindResult(call.Prog, call.Vers, call.Proc, res)
	if !ok || n > len(call.Sink) || n > len(res)-pos || xdr.Pad(n) > len(res)-pos-n {
		return
	}
	r.Item, r.Results = res[pos:pos+n:pos+n], res[:pos:pos]
	if tail := res[pos+n+xdr.Pad(n):]; len(tail) > 0 {
		r.Results = append(r.Results, tail...) // elsewhere: the item stays where it is
	}
}
