package transport_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"math/big"
	"net"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stag-rdma/stag/rdmap/rdmaptest"
	"github.com/stag-rdma/stag/transport"
	"github.com/stag-rdma/stag/transport/rpc"
	"github.com/stag-rdma/stag/xdr"
)

// wires are the kinds of net.Conn that the suite of TestConns runs on.
var wires = map[string]func(t testing.TB) (client, server net.Conn){
	"tcp":  func(t testing.TB) (net.Conn, net.Conn) { return dialPair(t, "tcp", "127.0.0.1:0") },
	"tls":  tlsPair,
	"unix": func(t testing.TB) (net.Conn, net.Conn) { return dialPair(t, "unix", filepath.Join(t.TempDir(), "s")) },
	"pipe": func(testing.TB) (net.Conn, net.Conn) { return rdmaptest.Pipe() },
}

// dialPair is a connection of the network within this host.
func dialPair(t testing.TB, network, addr string) (client, server net.Conn) {
	t.Helper()
	l, err := net.Listen(network, addr)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if client, err = net.Dial(network, l.Addr().String()); err != nil {
		t.Fatal(err)
	}
	if server, err = l.Accept(); err != nil {
		t.Fatal(err)
	}
	return client, server
}

// certificate is the test server's, signed by nobody.
var certificate = sync.OnceValues(func() (tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, err
	}
	tmpl := x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, &tmpl, &tmpl, key.Public(), key)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, err
})

func tlsPair(t testing.TB) (client, server net.Conn) {
	t.Helper()
	cert, err := certificate()
	if err != nil {
		t.Fatal(err)
	}
	a, b := dialPair(t, "tcp", "127.0.0.1:0")
	return tls.Client(a, &tls.Config{InsecureSkipVerify: true}), tls.Server(b, &tls.Config{Certificates: []tls.Certificate{cert}})
}

// TestConns runs one suite of calls on every kind of net.Conn.
func TestConns(t *testing.T) {
	suite := []struct {
		name string
		test func(t *testing.T, h *echo, s *transport.Server, c *transport.Client)
	}{
		{"forms", connsForms},
		{"long", connsLong},
		{"concurrent", connsConcurrent},
		{"cancel", connsCancel},
		{"shutdown", connsShutdown},
	}
	for name, wire := range wires {
		t.Run(name, func(t *testing.T) {
			for _, c := range suite {
				t.Run(c.name, func(t *testing.T) { onWire(t, wire, c.test) })
			}
		})
	}
}

// onWire runs a test with a server and a client on a connection of their own.
func onWire(t *testing.T, wire func(testing.TB) (net.Conn, net.Conn), test func(*testing.T, *echo, *transport.Server, *transport.Client)) {
	a, b := wire(t)
	h := newEcho()
	s := &transport.Server{Handler: h, Config: testConfig()}
	served := make(chan error, 1)
	go func() { served <- s.ServeConn(b) }()
	c, err := transport.NewClient(testCtx(t), a, testConfig())
	if err != nil {
		t.Fatal(err)
	}
	test(t, h, s, c)
	if err := c.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
	if err := <-served; err != nil {
		t.Errorf("ServeConn: %v", err)
	}
	s.Close()
}

// connsForms: NULL, inline, and data by chunks both ways.
func connsForms(t *testing.T, _ *echo, s *transport.Server, c *transport.Client) {
	mustDo(t, c, &nullCall)
	for _, n := range []int{0, 3, 1000, 4093, 65537, 1 << 20} {
		p, sink := filled(n), make([]byte, n)
		call := echoCall(p)
		call.Sink, call.MaxResults = sink, 64
		checkEcho(t, mustDo(t, c, call), p, sink)
	}
	if st := s.Stats(); st.OctetsRead == 0 || st.OctetsWritten == 0 {
		t.Errorf("nothing travelled in chunks: %+v", st)
	}
}

// connsLong: a call and a reply that cannot be reduced.
func connsLong(t *testing.T, _ *echo, _ *transport.Server, c *transport.Client) {
	call := wordCall(procList, 20000)
	call.MaxResults = 80000
	if r := mustDo(t, c, call); len(r.Results) != 80000 {
		t.Fatalf("%d octets of results", len(r.Results))
	}
	args := xdr.AppendOpaque(nil, filled(50001))
	d := xdr.NewDecoder(mustDo(t, c, &rpc.Call{Prog: testProg, Vers: testVers, Proc: procSum, Args: args}).Results)
	if n, v := d.Uint32(), d.Uint32(); n != 50001 || v != sum(filled(50001)) {
		t.Fatalf("%d octets, sum %d", n, v)
	}
}

func connsConcurrent(t *testing.T, _ *echo, _ *transport.Server, c *transport.Client) {
	var wg sync.WaitGroup
	for i := range 20 {
		wg.Go(func() {
			for k := range 5 {
				p := filled(i * k * 300)
				call := echoCall(p)
				call.Sink, call.MaxResults = make([]byte, len(p)), 64
				var r rpc.Reply
				if err := c.Do(testCtx(t), call, &r); err != nil {
					t.Error(err)
					return
				}
				checkEcho(t, &r, p, call.Sink)
				r.Release()
			}
		})
	}
	wg.Wait()
}

// connsCancel: a call that is given up harms no other.
func connsCancel(t *testing.T, h *echo, _ *transport.Server, c *transport.Client) {
	mustDo(t, c, &nullCall) // there is one credit before the first reply
	ctx, cancel := context.WithCancel(testCtx(t))
	got := make(chan error, 1)
	go func() { got <- tryCtx(ctx, c, &blockCall) }()
	<-h.enter
	cancel()
	if err := <-got; !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled call: %v", err)
	}
	mustDo(t, c, &nullCall)
	close(h.leave)
	mustDo(t, c, &nullCall)
}

// connsShutdown: the running call is answered, then the connection ends.
func connsShutdown(t *testing.T, h *echo, s *transport.Server, c *transport.Client) {
	got := make(chan error, 1)
	go func() { got <- try(t, c, &blockCall) }()
	<-h.enter
	down := make(chan error, 1)
	go func() { down <- s.Shutdown(testCtx(t)) }()
	waitFor(t, "the server refuses calls", s.IsClosing)
	close(h.leave)
	if err := <-got; err != nil {
		t.Error(err)
	}
	if err := <-down; err != nil {
		t.Error(err)
	}
	waitFor(t, "the client sees the end", func() bool { return c.Conn().Err() != nil }) // or its call breaks the pipe
	if err := try(t, c, &nullCall); !errors.Is(err, net.ErrClosed) {
		t.Errorf("call after Shutdown: %v", err)
	}
}
