package responder

import (
	"encoding/binary"

	"github.com/stag-rdma/stag/rdmap/verbs"
	"github.com/stag-rdma/stag/rpcrdma"
	"github.com/stag-rdma/stag/transport/internal/parts"
)

// instead replaces the reply in x.head by Immediate Data, if that is allowed.
func (rc *Responder) instead(x *Call, wr *verbs.WR) {
	n, ok := x.Resp.Instead()
	if !ok || len(x.wrs) > 1 || len(x.out.Expose) > 0 || x.out.HasInvalidate || x.out.Err != nil {
		return
	}
	if rc.Conn.ConnectionState().Extensions&verbs.Ext7306 == 0 || len(x.head) < rpcrdma.FixedSize {
		return
	}
	grant := binary.BigEndian.Uint32(x.head[8:])
	x.head = binary.BigEndian.AppendUint64(x.head[:0], parts.ToImmediate(grant, n))
	wr.Op, wr.Head = verbs.OpImmediate, x.head
	rc.Ctr.Immediates.Add(1)
}
