package transport

import "github.com/stag-rdma/stag/xdr"

// AppendReply appends to b the reply message to call xid as it would travel without chunks: header,
// results, all items and their pads. It copies everything. It is for handlers that keep their replies.
func (r *Response) AppendReply(b []byte, xid uint32) []byte {
	h := r.header(xid)
	return r.appendAll(xdr.AppendReply(b, &h))
}

// ReplySize returns how many octets AppendReply appends.
func (r *Response) ReplySize() int {
	h := r.header(0)
	return h.Size() + r.size()
}
