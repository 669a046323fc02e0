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

// unexpected is a call whose client does not know that its results may be large.
func unexpected(proc, n uint32) *rpc.Call { return wordCall(proc, n) }

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

// settled waits until a server has heard of all that its client has read.
func settled(t testing.TB, s *transport.Server) rpc.Stats {
	t.Helper()
	waitFor(t, "every exposed reply is freed", func() bool { st := s.Stats(); return st.Exposed == 0 && st.InFlight == 0 })
	return s.Stats()
}

// TestTransparent: an opaque of a program that no binding speaks for travels by chunks
// both ways, without the client's MaxResults.
func TestTransparent(t *testing.T) {
	s, c := pair(t, newEcho(), config5666(), config5666())
	for _, n := range []int{1, 3000, 5001, 300_000} {
		p := filled(n)
		r := mustDo(t, c, echoCall(p))
		checkEcho(t, r, p, nil)
		call := echoCall(p)
		call.Sink, call.MaxResults = make([]byte, n), 8
		r = mustDo(t, c, call)
		checkEcho(t, r, p, call.Sink)
		if r.Placed != (n >= 3000) {
			t.Errorf("%d octets placed: %v", n, r.Placed)
		}
	}
	st := settled(t, s)
	if want := uint64(2*3000 + 2*5001 + 2*300_000); st.OctetsRead != want || st.OctetsWritten != want/2 || st.Dones != 2 {
		t.Errorf("%+v, want %d octets read", st, want)
	}
}

// TestListenProfile: a server that speaks records has its large replies read.
func TestListenProfile(t *testing.T) {
	l := startListener(t, newEcho(), config5666())
	c := dial(t, l.Addr().String(), config5666())
	wantList(t, mustDo(t, c, unexpected(procList, 5000)), 5000)
	wantFill(t, mustDo(t, c, unexpected(procFill, 70_001)), 70_001)
	waitFor(t, "both are freed", func() bool { return l.Stats().Dones == 2 })
}
