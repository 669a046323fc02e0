package transport

import (
	"github.com/stag-rdma/stag/chunks"
	"github.com/stag-rdma/stag/xdr"
)

// settle moves the eligible result of a reply that came inline to the Sink of its call, so that callers need
// not care how it came. It leaves alone what it cannot find, and what does not fit.
func (r *Reply) settle(call *Call, b chunks.Binding) {
	if r.Placed || len(call.Sink) == 0 || len(call.MoreSinks) > 0 || r.Header.Err() != nil || call.Cred.Protected() {
		return
	}
	pos, n, ok := b.FindResult(call.Prog, call.Vers, call.Proc, r.Results)
	if !ok || n > len(call.Sink) || n > len(r.Results)-pos || xdr.Pad(n) > len(r.Results)-pos-n {
		return
	}
	copy(call.Sink, r.Results[pos:pos+n])
	tail := copy(r.Results[pos:], r.Results[pos+n+xdr.Pad(n):])
	r.Results = r.Results[:pos+tail]
	r.Placed, r.ItemLen, r.Lens = true, n, append(r.Lens[:0], n)
}
