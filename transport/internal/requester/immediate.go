package requester

import (
	"encoding/binary"

	"github.com/stag-rdma/stag/rdmap"
	"github.com/stag-rdma/stag/rdmap/verbs"
	"github.com/stag-rdma/stag/rpcrdma"
	"github.com/stag-rdma/stag/transport/internal/parts"
	"github.com/stag-rdma/stag/xdr"
)

// ReceiveImmediate takes Immediate Data that stand for a reply.
func (c *Requester) ReceiveImmediate(conn *rdmap.Conn, m *verbs.Message) {
	conn.PostRecv(1)
	if c.cfg.Immediate == nil || len(m.Data) != 8 {
		c.ctr.Dropped.Add(1)
		return
	}
	c.ctr.Immediates.Add(1)
	grant, n := parts.Immediate(binary.BigEndian.Uint64(m.Data))
	order := m.Order
	c.cfg.Immediate(n, func(reply []byte) { c.deliver(conn, order, grant, reply) })
}

// deliver gives a reply that came in another way than by conn to its call. Like conn, it drops what
// is not a reply to an outstanding call.
func (c *Requester) deliver(conn *rdmap.Conn, order uint64, grant uint32, reply []byte) {
	d := xdr.NewDecoder(reply)
	h := rpcrdma.Header{XID: d.Uint32(), Vers: rpcrdma.Version, Credit: grant, Type: rpcrdma.MsgTypeMsg}
	c.Receive(conn, &verbs.Message{Data: append(h.Append(nil), reply...), Order: order})
}
