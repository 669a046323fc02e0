package rpcrdma

import (
	"bytes"

	"github.com/stag-rdma/stag/chunks"
)

// UnpadCall returns the RPC call in an RDMA_MSGP (RFC 5666 Section 3.9) as it would be inline in
// an RDMA_MSG. It is for observers such as decoders: the machines do this themselves. send is the
// whole Send from which h was decoded. It is borrowed and not changed; the call is in new memory.
// b, if it is a [chunks.Walker], says where the items of its programs are.
//
// With an error, UnpadCall returns the call without the pads found until then; those of credential
// and verifier come first. The error is [ErrPadding] for an invalid alignment, or for
// arguments of a program that b does not walk, and [ErrRPC] or [ErrArgs] if the message ends
// inside its header or its arguments.
func UnpadCall(h *Header, send []byte, b chunks.Binding) ([]byte, error) {
	c := looker(h, send)
	err := c.call(b)
	return c.run(), err
}

// UnpadReply is like [UnpadCall], for the reply to a call of that program, version and procedure.
func UnpadReply(h *Header, send []byte, b chunks.Binding, prog, vers, proc uint32) ([]byte, error) {
	c := looker(h, send)
	err := c.reply(b, prog, vers, proc)
	return c.run(), err
}

// looker returns a closer that leaves send alone.
func looker(h *Header, send []byte) *closer {
	hdr := min(h.Size(), len(send))
	return &closer{h: h, hdr: hdr, stream: bytes.Clone(send[hdr:])}
}
