package transport_test

import (
	"bytes"
	"errors"
	"net"
	"testing"

	"github.com/stag-rdma/stag/transport"
	"github.com/stag-rdma/stag/transport/rpc"
	"github.com/stag-rdma/stag/xdr"
)

// testConfig is the configuration of the tests: the test program's binding.
// Its Sends are small both ways, as with Linux peers, so that data travel in chunks.
func testConfig() *transport.Config {
	return &transport.Config{Binding: echoBinding, InlineSend: transport.DefaultInlineSize, InlineRecv: transport.DefaultInlineSize}
}

// How a server serves a listener.
var (
	overRDMA   = (*transport.Server).Serve
	overTCP    = (*transport.Server).ServeStream
	overShared = (*transport.Server).ServeShared
)

// served serves h on loopback until the test ends, and returns its address.
func served(t testing.TB, how func(*transport.Server, net.Listener) error, h rpc.Handler, cfg *transport.Config) (*transport.Server, string) {
	t.Helper()
	s := &transport.Server{Handler: h, Config: cfg}
	l := must(net.Listen("tcp", "127.0.0.1:0"))(t)
	served, n := make(chan error, 2), 1
	go func() { served <- how(s, l) }()
	if c := cardListener(t, l.Addr()); c != nil {
		n = 2
		go func() { served <- s.Serve(c) }()
	}
	t.Cleanup(func() {
		s.Close()
		for range n {
			if err := <-served; !errors.Is(err, transport.ErrServerClosed) {
				t.Errorf("served until %v", err)
			}
		}
	})
	return s, l.Addr().String()
}

// startServer serves h over RDMA, as testConfig says if cfg is nil.
func startServer(t testing.TB, h rpc.Handler, cfg *transport.Config) (*transport.Server, string) {
	t.Helper()
	if cfg == nil {
		cfg = testConfig()
	}
	return served(t, overRDMA, h, cfg)
}

// connect makes a client of a network, "rdma" or "tcp", that is closed with the test.
func connect(t testing.TB, network, addr string, cfg *transport.Config) rpc.Caller {
	t.Helper()
	if network == "tcp" {
		return dialStream(t, addr, cfg)
	}
	c := must(dialAddr(testCtx(t), t, addr, cfg))(t)
	t.Cleanup(func() { c.Close() })
	return c
}

func dialStream(t testing.TB, addr string, cfg *transport.Config) *transport.StreamClient {
	t.Helper()
	c := must(transport.DialStream(testCtx(t), "tcp", addr, cfg))(t)
	t.Cleanup(func() { c.Close() })
	return c
}

// dial connects a client that is closed with the test.
func dial(t testing.TB, addr string, cfg *transport.Config) *transport.Client {
	t.Helper()
	if cfg == nil {
		cfg = testConfig()
	}
	c := must(dialAddr(testCtx(t), t, addr, cfg))(t)
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
