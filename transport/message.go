package transport

import (
	"context"
	"net"

	"github.com/stag-rdma/stag/xdr"
)

// ServeMessage answers one RPC call message without a connection: for tests of handlers, and for
// other framings. It appends the reply message to b, with the data of AppendItem and its pad in
// place. It returns false if msg is not a call, which gets no reply (RFC 5531 Section 9). It
// borrows msg. If the handler panics, the reply is SYSTEM_ERR.
func ServeMessage(ctx context.Context, h Handler, from net.Addr, msg, b []byte) ([]byte, bool) {
	req := Request{RemoteAddr: from, Network: "message"}
	resp := responses.get()
	defer responses.put(resp)
	if parseCall(&req, resp, &Config{}, msg) != nil {
		return b, false
	}
	var ctr counters
	run(ctx, h, &ctr, noLogger, &req, resp)
	hd := resp.header(req.XID)
	return resp.appendAll(xdr.AppendReply(b, &hd)), true
}
