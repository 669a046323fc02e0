package transport_test

import (
	"bytes"
	"errors"
	"net"
	"testing"

	"go.uber.org/zap"

	"github.com/stag-rdma/stag/transport"
	"github.com/stag-rdma/stag/transport/rpc"
	"github.com/stag-rdma/stag/xdr"
)

// testConfig is the configuration of the tests: the test program's binding.
// Its Sends are small both ways, as with Linux peers, so that data travel in chunks.
func testConfig() *transport.Config {
	return &transport.Config{Binding: echoBinding, InlineSend: transport.DefaultInlineSize, InlineRecv: transport.DefaultInlineSize}
}

// startServer serves h over RDMA on loopback and returns its address.
func startServer(t testing.TB, h rpc.Handler, cfg *transport.Config) (*transport.Server, string) {
	t.Helper()
	if cfg == nil {
		cfg = testConfig()
	}
	s := &transport.Server{Handler: h, Config: cfg}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	t.Cleanup(func() {
		s.Close()
		if err := <-served; !errors.Is(err, transport.ErrServerClosed) {
			t.Errorf("Serve: %v", err)
		}
	})
	return s, l.Addr().String()
}

// dial connects a client that is closed with the test.
func dial(t testing.TB, addr string, cfg *transport.Config) *transport.Client {
	t.Helper()
	if cfg == nil {
		cfg = testConfig()
	}
	c, err := transport.Dial(testCtx(t), "tcp", recorded(t, addr), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return c
}

// pair is a server and one of its clients.
func pair(t testing.TB, h rpc.Handler, server, client *transport.Config) (*transport.Server, *transport.Client) {
	t.Helper()
	s, addr := startServer(t, h, server)
	return s, dial(t, addr, client)
}

// nullCall is the shortest call.
var nullCall = rpc.Call{Prog: testProg, Vers: testVers}

// checkEcho compares a reply of procEcho with what was sent.
func checkEcho(t testing.TB, r *rpc.Reply, p, sink []byte) {
	t.Helper()
	d := xdr.NewDecoder(r.Results)
	var got []byte
	if r.Item != nil {
		if n := int(d.Uint32()); n != len(r.Item) {
			t.Fatalf("count %d, item of %d", n, len(r.Item))
		}
		got = r.Item
		if r.Placed && &got[:1][0] != &sink[0] {
			t.Fatal("placed elsewhere")
		}
	} else {
		got = d.Opaque(8 << 20)
	}
	if !bytes.Equal(got, p) {
		t.Fatalf("%d octets came back as %d different ones", len(p), len(got))
	}
	if w := d.Uint32(); w != 0xfeedface || d.Err() != nil || d.Len() != 0 {
		t.Fatalf("after the item %#x, %v, %d octets left", w, d.Err(), d.Len())
	}
}

// TestStatus: what a handler says reaches the caller by both transports, a panic too.
func TestStatus(t *testing.T) {
	cfg := testConfig()
	cfg.Logger = zap.NewNop() // a panic is printed without
	s, c := pair(t, newEcho(), cfg, nil)
	stream, sc := startStream(t, newEcho(), cfg)
	for s, c := range map[*transport.Server]rpc.Caller{s: c, stream: sc} {
		wantStatus(t, c, &rpc.Call{Prog: 1, Vers: 1}, xdr.ProgUnavail)
		wantStatus(t, c, &rpc.Call{Prog: testProg, Vers: 9}, xdr.ProgMismatch)
		wantStatus(t, c, &rpc.Call{Prog: testProg, Vers: testVers, Proc: 99}, xdr.ProcUnavail)
		wantStatus(t, c, &rpc.Call{Prog: testProg, Vers: testVers, Proc: procEcho}, xdr.GarbageArgs)
		wantStatus(t, c, &rpc.Call{Prog: testProg, Vers: testVers, Proc: procPanic}, xdr.SystemErr)
		if st := s.Stats(); st.Panics != 1 {
			t.Errorf("%T: %d panics counted, want 1", c, st.Panics)
		}
		var r rpc.Reply
		for range 2 { // the second call gives back what the first has brought; TestMain counts
			if err := c.Do(testCtx(t), wordCall(procFill, 1000), &r); err != nil || r.Header.Err() != nil {
				t.Error(err, r.Header)
			}
		}
		r.Release()
	}
}
