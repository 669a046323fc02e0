package rpc

import (
	"crypto/tls"
	"net"

	"github.com/stag-rdma/stag/transport/gss"
	"github.com/stag-rdma/stag/transport/internal/memory"
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
	// GSS says who calls and how the call is protected (RFC 2203), nil if it is not: then nobody has verified Cred. Args
	// are the plain ones. The results will be protected as the arguments were.
	GSS *gss.Call
	// Backward is the backward direction of the connection on which the call came, nil if there is
	// none. [Backward.Do] of nil returns an error. It may be used after the call.
	Backward *Backward
	// Deferred is for transports: data of the call that are still at the client, which handlers take with
	// [Request.Opaque].
	Deferred memory.Deferred
}
