package transport

import (
	"encoding/binary"

	"github.com/stag-rdma/stag/rdmap"
	"github.com/stag-rdma/stag/rdmap/verbs"
	"github.com/stag-rdma/stag/rpcrdma"
	"github.com/stag-rdma/stag/xdr"
)

// immediateBits is how many bits of Immediate Data are the handler's number; the credits come before it.
const immediateBits = 48

// instead replaces the reply in x.head by Immediate Data, if that is allowed.
func (rc *respConn) instead(x *exchange, wr *verbs.WR) {
	n, ok := x.resp.Instead()
	if !ok || len(x.wrs) > 1 || len(x.out.Expose) > 0 || x.out.HasInvalidate || x.out.Err != nil {
		return
	}
	if rc.conn.ConnectionState().Extensions&verbs.Ext7306 == 0 || len(x.head) < rpcrdma.FixedSize {
		return
	}
	grant := min(binary.BigEndian.Uint32(x.head[8:]), 1<<16-1)
	x.head = binary.BigEndian.AppendUint64(x.head[:0], uint64(grant)<<immediateBits|n)
	wr.Op, wr.Head = verbs.OpImmediate, x.head
	rc.ctr.Immediates.Add(1)
}

// immediate receives Immediate Data that stand for a reply.
func (c *Client) immediate(conn *rdmap.Conn, m *verbs.Message) {
	conn.PostRecv(1)
	if c.cfg.Immediate == nil || len(m.Data) != 8 {
		c.ctr.Dropped.Add(1)
		return
	}
	c.ctr.Immediates.Add(1)
	v := binary.BigEndian.Uint64(m.Data)
	grant, n := uint32(v>>immediateBits), v&(1<<immediateBits-1)
	order := m.Order
	c.cfg.Immediate(n, func(reply []byte) { c.deliver(conn, order, grant, reply) })
}

// deliver gives a reply that came in another way than by conn to its call. Like conn, it drops what
// is not a reply to an outstanding call.
func (c *Client) deliver(conn *rdmap.Conn, order uint64, grant uint32, reply []byte) {
	d := xdr.NewDecoder(reply)
	h := rpcrdma.Header{XID: d.Uint32(), Vers: rpcrdma.Version, Credit: grant, Type: rpcrdma.MsgTypeMsg}
	c.received(conn, &verbs.Message{Data: append(h.Append(nil), reply...), Order: order})
}
