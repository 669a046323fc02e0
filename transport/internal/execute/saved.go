package execute

import (
	"bytes"

	"github.com/stag-rdma/stag/chunks"
	"github.com/stag-rdma/stag/transport/rpc"
	"github.com/stag-rdma/stag/xdr"
)

// SavedReply is the reply to a call as the handler has made it, before it is encoded: it is encoded
// again for the chunks that a retransmission offers. It never changes.
type SavedReply struct {
	header  xdr.ReplyHeader
	results []byte
	items   []chunks.Item // as of rpc.Response.Items
	Record  []byte        // behind a Listener: the whole reply, instead of the other fields
}

// savedOverhead is about how many octets a reply costs besides its own: the entry, its places in
// the maps, the savedReply.
const savedOverhead = 512

// save copies a reply.
func save(r *rpc.Response) *SavedReply {
	v := &SavedReply{header: r.Header(0)}
	v.header.Verf.Body = bytes.Clone(r.Verf.Body)
	if !r.HasResults() {
		return v
	}
	v.results = bytes.Clone(r.Results)
	for _, it := range r.Lent.Items {
		v.items = append(v.items, chunks.Item{Pos: it.Pos, Data: bytes.Clone(it.Data)})
	}
	return v
}

// size returns the memory that v takes, in octets.
func (v *SavedReply) size() int64 {
	n := savedOverhead + len(v.header.Verf.Body) + len(v.results) + len(v.Record)
	for _, it := range v.items {
		n += len(it.Data)
	}
	return int64(n)
}

// restore makes r, which is empty, the reply. It lends the data of the items, which outlive the reply.
func (v *SavedReply) restore(r *rpc.Response) {
	r.Stat, r.Low, r.High, r.Verf = v.header.Accept, v.header.Low, v.header.High, v.header.Verf
	if v.header.Denied {
		r.Deny(v.header.AuthStat)
	}
	from := 0
	for _, it := range v.items {
		r.Results = append(r.Results, v.results[from:it.Pos-4]...)
		r.AppendItem(it.Data) // with its count word
		from = it.Pos
	}
	r.Results = append(r.Results, v.results[from:]...)
}
