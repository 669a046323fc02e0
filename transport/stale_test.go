package transport_test

import (
	"bytes"
	"context"
	"fmt"
	"testing"

	"github.com/stag-rdma/stag/transport/rpc"
	"github.com/stag-rdma/stag/xdr"
)

// careless answers with memory that it does not write to: procFill from Buffer, procEcho from Scratch, all of which it
// writes.
type careless struct{}

func (careless) ServeRPC(_ context.Context, req *rpc.Request, resp *rpc.Response) {
	if req.Proc == procNull { // which asks for the grant
		return
	}
	d := xdr.NewDecoder(req.Args)
	switch n := int(d.Uint32()); req.Proc {
	case procFill:
		resp.AppendItem(resp.Buffer(n))
	default:
		b := resp.Scratch(n)
		copy(b, d.FixedOpaque(n))
		resp.AppendItem(b)
	}
}

// TestBufferIsClear: a handler that does not write to what Buffer returns sends zeros, of every size and by every
// transport, although the pool holds octets of other clients.
func TestBufferIsClear(t *testing.T) {
	_, addr := served(t, overShared, careless{}, testConfig())
	for _, name := range []string{"rdma", "tcp"} {
		c := connect(t, name, addr, testConfig())
		for _, n := range []int{1, 100, 4000, 5000, 20_000, 100_000, 1_000_000} {
			t.Run(fmt.Sprintf("%s/%d", name, n), func(t *testing.T) {
				taint(t, c)
				call := wordCall(procFill, uint32(n))
				call.MaxResults = n + 64
				d := xdr.NewDecoder(mustDo(t, c, call).Results)
				if b := d.Opaque(n); d.Err() != nil || !bytes.Equal(b, make([]byte, n)) {
					t.Errorf("not %d zeros; of others: %v", n, stale(b))
				}
			})
		}
	}
}
