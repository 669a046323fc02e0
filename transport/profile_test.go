package transport_test

import (
	"bytes"
	"testing"

	"github.com/stag-rdma/stag/rpcrdma"
	"github.com/stag-rdma/stag/transport"
	"github.com/stag-rdma/stag/transport/rpc"
	"github.com/stag-rdma/stag/xdr"
)

// config5666 is profile rfc5666 with the default binding, which does not speak for the
// test program: any opaque of it may be reduced.
func config5666() *transport.Config {
	return &transport.Config{RFC5666: &transport.RFC5666{}, InlineSend: transport.DefaultInlineSize, InlineRecv: transport.DefaultInlineSize}
}

// configOf returns cfg for a profile, with the alignment that a server of RFC 5666 asks for.
func configOf(p rpcrdma.Profile, cfg *transport.Config, align int) *transport.Config {
	if p == rpcrdma.RFC5666 {
		cfg.RFC5666 = &transport.RFC5666{Align: align}
	}
	return cfg
}

// wantFill checks the result of procFill.
func wantFill(t testing.TB, r *rpc.Reply, n int) {
	t.Helper()
	d := xdr.NewDecoder(r.Results)
	if got := d.Opaque(8 << 20); !bytes.Equal(got, filled(n)) || d.End() != nil {
		t.Fatalf("%d octets came back as %d others, %v", n, len(got), d.End())
	}
}

// wantList checks the result of procList.
func wantList(t testing.TB, r *rpc.Reply, n int) {
	t.Helper()
	d := xdr.NewDecoder(r.Results)
	for i := range n {
		if v := d.Uint32(); v != uint32(i) {
			t.Fatalf("word %d of %d is %d", i, n, v)
		}
	}
	if d.End() != nil {
		t.Fatal(d.End())
	}
}
