package cases

import (
	"encoding/binary"
	"fmt"

	"github.com/stag-rdma/stag/chunks"
	"github.com/stag-rdma/stag/rpcrdma"
	"github.com/stag-rdma/stag/xdr"
)

// procRead is READ of NFSv3 (RFC 1813 Section 3.3.6).
const procRead = 6

// reads are READs of lengths that MPA must pad: no answer to NULL has such a length.
func (g *gen) reads() []Case {
	if g.Handle == "" {
		return nil
	}
	c := Case{Name: "chunks/read-odd", Rows: []int{11}, Rule: "RFC 5044 Section 4.1, RFC 8166 Section 3.4.6.2", Sends: "NFSv3 READs of 1, 2, 3 and 5 octets into write chunks of those lengths"}
	for _, n := range []int{1, 2, 3, 5} {
		s := g.rpc(fmt.Sprint(n))
		s.Fills = true
		lists := chunks.Lists{Write: []chunks.WriteChunk{{s.room(n)}}}
		s.send(append(header(s.bad, rpcrdma.MsgTypeMsg, lists), g.read(s.bad, n)...))
		c.Tries = append(c.Tries, s.about(s.bad).then(ok(KindAnswered)))
	}
	return []Case{c}
}

// read returns a READ of the first n octets.
func (g *gen) read(xid uint32, n int) []byte {
	cred := xdr.SysCred{MachineName: "probe"}
	b := xdr.AppendCall(nil, &xdr.CallHeader{XID: xid, RPCVers: xdr.RPCVersion, Prog: g.Prog, Vers: g.Vers, Proc: procRead, Cred: cred.Auth()})
	b = binary.BigEndian.AppendUint32(b, uint32(len(g.Handle)))
	b = append(b, g.Handle...)
	b = append(b, make([]byte, -len(g.Handle)&3)...)
	return append(b, words(0, 0, uint32(n))...)
}
