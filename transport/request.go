package transport

import (
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

	away     *deferral // of data that are still at the client
	backward *Backward
}
