package transport_test

import (
	"context"
	"testing"

	"github.com/stag-rdma/stag/transport"
	"github.com/stag-rdma/stag/transport/rpc"
	"github.com/stag-rdma/stag/xdr"
)

// readied takes WRITEs lazily. A handle whose first word is 1 is ready, one with 2 is refused.
type readied struct{}

func (readied) Describe(req *rpc.Request) rpc.Traits {
	return rpc.Traits{Lazy: req.Proc == 7, Blocks: req.Proc == 7}
}

func (readied) Ready(_ context.Context, req *rpc.Request) bool {
	d := xdr.NewDecoder(req.Args)
	d.Skip(4)
	return d.Uint32() == 1 && d.Len() == 80-8 // the data are not there
}

func (readied) ServeRPC(ctx context.Context, req *rpc.Request, resp *rpc.Response) {
	d := xdr.NewDecoder(req.Args)
	d.Skip(4)
	if d.Uint32() == 2 {
		resp.Results = append(resp.Results, "refused"...)
		return
	}
	d.Skip(80 - 8 - 4)
	o := req.Opaque(&d, 1<<20)
	if o.Pending() {
		resp.Results = append(resp.Results, "pending "...)
	}
	if b, err := o.Pull(ctx); err == nil && len(b) == 50_000 && b[49_999] == 7 {
		resp.Results = append(resp.Results, "whole"...)
	}
}

// Data of a lazy call that is ready are pulled at once; those of a call that is refused stay where they
// are.
func TestReady(t *testing.T) {
	s, addr := served(t, overRDMA, readied{}, nil)
	c := connect(t, "rdma", addr, &transport.Config{InlineSend: transport.DefaultInlineSize})
	data := make([]byte, 50_000)
	data[49_999] = 7
	for _, tt := range []struct {
		word     byte
		want     string
		deferred uint64
		pulled   uint64
	}{{1, "whole", 0, 50_000}, {0, "pending whole", 1, 50_000}, {2, "refused", 1, 0}} {
		before := s.Stats()
		call := write(data, nil)
		call.Args[7] = tt.word
		call.MaxResults = 100
		r := mustDo(t, c, call)
		after := s.Stats()
		if string(r.Results) != tt.want || after.Deferred-before.Deferred != tt.deferred || after.OctetsRead-before.OctetsRead != tt.pulled {
			t.Errorf("%d: %q, %d deferred, %d octets pulled; want %+v", tt.word, r.Results, after.Deferred-before.Deferred, after.OctetsRead-before.OctetsRead, tt)
		}
	}
}
