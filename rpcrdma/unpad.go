package rpcrdma

import (
	"bytes"

	"github.com/stag-rdma/stag/chunks"
)

// UnpadCall returns the RPC call in an RDMA_MSGP (RFC 5666 Section 3.9) as an RDMA_MSG would
// have it inline, for those who look on: a machine does this itself. send is a whole Send, which
// h was decoded from; it is borrowed and not changed, and the call is in memory of its own.
// b, if it is a [chunks.Walker], says where the items of its programs are.
//
// With an error the call comes without the pads found so far, those of credential and verifier
// first: [ErrPadding] for an alignment that is none, and for arguments of a program that b does
// not walk; [ErrRPC] and [ErrArgs] when the message ends inside its header or its arguments.
func UnpadCall(h *Header, send []byte, b chunks.Binding) ([]byte, error) {
	c := looker(h, send)
	err := c.call(b)
	return c.run(), err
}

// UnpadReply is [UnpadCall] for the reply to a call of that program, version and procedure.
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
