package transport_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
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

func TestNull(t *testing.T) {
	s, c := pair(t, newEcho(), nil, nil)
	for range 3 {
		r := mustDo(t, c, &nullCall)
		if len(r.Results) != 0 || r.Placed {
			t.Errorf("NULL returned %d octets, placed %v", len(r.Results), r.Placed)
		}
	}
	st := s.Stats()
	if st.Calls != 3 || st.Replies != 3 || st.OctetsRead != 0 || st.OctetsWritten != 0 || st.Connections != 1 {
		t.Errorf("server: %+v", st)
	}
	if st := c.Stats(); st.Calls != 3 || st.Replies != 3 || st.Credits != 64 || st.OctetsInline != 3*(28+40+28+24) {
		t.Errorf("client: %+v", st)
	}
}

// TestForms sends and gets opaques of every length mod 4 through every form.
func TestForms(t *testing.T) {
	s, c := pair(t, newEcho(), nil, nil)
	for _, n := range []int{0, 1, 2, 3, 4, 100, 1000, 2047, 2048, 2049, 2050, 2051, 4000, 4093, 4096, 65537, 1 << 20} {
		p := filled(n)
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			before := s.Stats()
			sink := make([]byte, n)
			call := echoCall(p)
			call.Sink = sink
			call.MaxResults = 64
			checkEcho(t, mustDo(t, c, call), p, sink)
			st := s.Stats()
			if got := int(st.OctetsRead - before.OctetsRead); n >= 2048 && got != n || n < 2048 && got != 0 {
				t.Errorf("%d octets by RDMA Read", got)
			}
			if got := int(st.OctetsWritten - before.OctetsWritten); n >= 2048 && got != n || n < 2048 && got != 0 {
				t.Errorf("%d octets by RDMA Write", got)
			}
		})
	}
}

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

// TestReplyChunk gets results that are too large for a Send and have no item.
func TestReplyChunk(t *testing.T) {
	s, c := pair(t, newEcho(), nil, nil)
	for _, n := range []int{1, 1000, 1010, 1011, 1012, 1100, 20000, 250000} {
		before := s.Stats()
		call := wordCall(procList, uint32(n))
		call.MaxResults = 4 * n
		r := mustDo(t, c, call)
		if len(r.Results) != 4*n {
			t.Fatalf("%d octets of results, want %d", len(r.Results), 4*n)
		}
		d := xdr.NewDecoder(r.Results)
		for i := range n {
			if v := d.Uint32(); v != uint32(i) {
				t.Fatalf("word %d is %d", i, v)
			}
		}
		got := int(s.Stats().OctetsWritten - before.OctetsWritten)
		if want := 24 + 4*n; n > 1011 && got != want || n <= 1000 && got != 0 {
			t.Errorf("%d words: %d octets by RDMA Write", n, got)
		}
	}
}

// TestLongCall sends arguments that are too large for a Send and cannot be reduced.
func TestLongCall(t *testing.T) {
	s, c := pair(t, newEcho(), nil, &transport.Config{}) // the client's binding knows no item
	for _, n := range []int{4000, 4096, 4097, 10001, 500000} {
		p := filled(n)
		before := s.Stats()
		r := mustDo(t, c, itemCall(procSum, p))
		d := xdr.NewDecoder(r.Results)
		if l, v := d.Uint32(), d.Uint32(); int(l) != n || v != sum(p) {
			t.Errorf("%d octets arrived as %d, sum %d, want %d", n, l, v, sum(p))
		}
		want := 40 + 4 + n + xdr.Pad(n)
		if n < 4024 {
			want = 0
		}
		if got := int(s.Stats().OctetsRead - before.OctetsRead); got != want {
			t.Errorf("%d octets: %d by RDMA Read, want %d", n, got, want)
		}
	}
}

func TestCancelAndClose(t *testing.T) {
	h := newEcho()
	_, c := pair(t, h, nil, nil)
	mustDo(t, c, &nullCall)
	ctx, cancel := context.WithCancel(testCtx(t))
	got := make(chan error, 1)
	block := rpc.Call{Prog: testProg, Vers: testVers, Proc: procBlock}
	go func() { got <- tryCtx(ctx, c, &block) }()
	<-h.enter
	cancel()
	if err := <-got; !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled call: %v", err)
	}
	if n := c.Stats().InFlight; n != 1 {
		t.Errorf("%d calls in flight after cancellation, want the cancelled one", n)
	}
	h.leave <- struct{}{}
	mustDo(t, c, &nullCall)

	go func() { got <- try(t, c, &block) }()
	<-h.enter
	c.Close()
	if err := <-got; !errors.Is(err, net.ErrClosed) {
		t.Errorf("call on a closed connection: %v", err)
	}
	if err := try(t, c, &nullCall); !errors.Is(err, net.ErrClosed) {
		t.Errorf("call after Close: %v", err)
	}
	close(h.leave)
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
		mustDo(t, c, &nullCall)
	}
}
