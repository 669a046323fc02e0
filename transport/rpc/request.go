package rpc

import (
	"context"
	"crypto/tls"
	"net"

	"github.com/stag-rdma/stag/xdr"
)

// Request is a call, as a handler sees it.
type Request struct {
	// CallHeader is the RPC call header; the bodies of Cred and Verf are lent like
	// Args. RPCVers is 2: other versions never reach a handler.
	xdr.CallHeader
	// Args are the complete, contiguous XDR arguments, lent until ServeRPC returns. Data that came
	// by RDMA Read is already in them, pads included. In calls for which the handler's Lazy
	// returns true, data may be missing: see [Request.Opaque].
	Args []byte
	// RemoteAddr is the peer's address.
	RemoteAddr net.Addr
	// Network is "rdma" or "tcp".
	Network string
	// TLS says what protects the connection, with the peer's certificates, nil if nothing does. A certificate names
	// a machine, never the user of a call (RFC 9289 Section 4.2). It must not be changed.
	TLS *tls.ConnectionState
	// Backward is the backward direction of the connection on which the call came, nil if there is
	// none. [Backward.Do] of nil returns an error. It may be used after the call.
	Backward *Backward
	// Deferred is set by a transport that has left data of the call at the client; nil: all data are
	// in Args. Handlers use [Request.Opaque].
	Deferred Deferred
}

// Deferred is a transport's end of a call whose data are still at the client.
type Deferred interface {
	// Find skips the count word at which d stands and returns its chunk and its length in octets. ok is
	// false if the data of the opaque are not at the client; then d was not moved. A count above most
	// makes d fail.
	Find(d *xdr.Decoder, most int) (chunk, n int, ok bool)
	// Turn is a number that changes when ServeRPC has returned: then nothing can be pulled anymore.
	Turn() uint64
	// Scratch is [Response.Scratch] of the call.
	Scratch(n int) []byte
	// Pull fills bufs with octets of a chunk from off on. If in is not nil, bufs is one part of it.
	Pull(ctx context.Context, chunk, off int, bufs [][]byte, in *Memory) error
}
