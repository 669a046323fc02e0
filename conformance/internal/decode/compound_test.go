package decode_test

import (
	"strings"
	"testing"

	"github.com/stag-rdma/stag/conformance/internal/decode"
)

// TestEveryCompound: every COMPOUND of the captures is decoded to its last octet, and a reply has the
// operations of its call, up to the one that failed.
func TestEveryCompound(t *testing.T) {
	ops, moved := 0, 0
	for _, name := range []string{"c-nfs41.pcap", "c-nfs42-xattr.pcap"} {
		calls := make(map[uint32]string)
		decodeFile(t, pcapDir+"/"+name, func(ev *decode.Event) {
			if ev.RPC == nil || ev.RPC.Compound == nil {
				return
			}
			r, c := ev.RPC, ev.RPC.Compound
			if c.Err != nil || int(c.NumOps) != len(c.Ops) {
				t.Errorf("%s: %v: %v", name, ev, c.Err)
			}
			var names []string
			for _, op := range c.Ops {
				names = append(names, op.Name)
				moved += op.Moved
			}
			ops += len(names)
			said := strings.Join(names, " ")
			if !r.IsReply {
				calls[r.XID] = said
			} else if !strings.HasPrefix(calls[r.XID], said) || c.Status == 0 && calls[r.XID] != said {
				t.Errorf("%s: %v: answers %s", name, ev, calls[r.XID])
			}
		})
	}
	if ops < 400 || moved == 0 {
		t.Errorf("%d operations, %d octets of them in chunks", ops, moved)
	}
}
