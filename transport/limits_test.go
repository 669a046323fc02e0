package transport_test

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stag-rdma/stag/chunks"
	"github.com/stag-rdma/stag/rdmap"
	"github.com/stag-rdma/stag/rdmap/rdmaptest"
	"github.com/stag-rdma/stag/rdmap/region"
	"github.com/stag-rdma/stag/rdmap/verbs"
	"github.com/stag-rdma/stag/rpcrdma"
	"github.com/stag-rdma/stag/transport"
	"github.com/stag-rdma/stag/transport/rpc"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"
)

// seenAt is c with another address of its peer.
func seenAt(c net.Conn, addr net.Addr) net.Conn {
	if d, ok := c.(*rdmaptest.Device); ok {
		return &deviceFrom{d, addr}
	}
	return &from{c, addr}
}

// deviceFrom is a from that remains a Device.
type deviceFrom struct {
	*rdmaptest.Device
	addr net.Addr
}

func (c *deviceFrom) RemoteAddr() net.Addr { return c.addr }

// from is a pipe end whose peer has an address of its choice.
type from struct {
	net.Conn
	addr net.Addr
}

func (c *from) RemoteAddr() net.Addr { return c.addr }

// tcpAddr parses ip, to be the address of a peer.
func tcpAddr(ip string) net.Addr { return &net.TCPAddr{IP: net.ParseIP(ip), Port: 700} }

// dialFrom connects a client that s sees at the address ip, or returns the error.
func dialFrom(t testing.TB, s *transport.Server, ip string) (*transport.Client, error) {
	t.Helper()
	a, b := pipe(t)
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = s.ServeConn(seenAt(b, tcpAddr(ip))) // the tests look at the client's error
	}()
	c, err := transport.NewClient(testCtx(t), a, testConfig())
	if err != nil {
		a.Close()
		<-served
		return nil, err
	}
	t.Cleanup(func() { c.Close(); <-served })
	return c, nil
}

// newServer is a server whose connections the test makes.
func newServer(t testing.TB, h rpc.Handler, cfg *transport.Config) *transport.Server {
	t.Helper()
	s := &transport.Server{Handler: h, Config: cfg}
	t.Cleanup(func() { s.Close() })
	noErr(t, s.Init())
	return s
}

func TestAllowNets(t *testing.T) {
	allow := must(transport.AllowNets("192.0.2.0/24", "2001:db8::/32", "198.51.100.7", "fe80::1%eth0", "::ffff:203.0.113.0/120"))(t)
	for ip, want := range map[string]bool{
		"192.0.2.1": true, "192.0.3.1": false, "::ffff:192.0.2.9": true,
		"2001:db8::5": true, "2001:db9::5": false,
		"198.51.100.7": true, "198.51.100.8": false, "fe80::1": true,
		"203.0.113.77": true, "203.0.114.1": false, "127.0.0.1": false,
	} {
		if got := allow(tcpAddr(ip)); got != want {
			t.Errorf("%s: %v", ip, got)
		}
	}
	if allow(&net.UnixAddr{Name: "192.0.2.1"}) || allow(nil) {
		t.Error("a peer without an IP address was admitted")
	}
	if allow(&net.UDPAddr{IP: net.IPv4(192, 0, 2, 3), Port: 1}) != true {
		t.Error("an address that only its text gives away was not admitted")
	}
	for _, bad := range []string{"", "192.0.2.0/33", "host", "192.0.2.1:80"} {
		if _, err := transport.AllowNets(bad); !errors.Is(err, rpc.ErrConfig) {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

// TestConnsDefault: without a setting, there are no more connections than Limits.Memory has room for.
func TestConnsDefault(t *testing.T) {
	for _, tt := range []struct {
		memory      int64
		conns, want int
	}{{0, 0, 10240}, {64 << 20, 0, 4096}, {2 << 20, 0, 2112}, {1 << 50, 0, 2048 + 1<<30}, {64 << 20, 16384, 16384}} {
		c, err := (&transport.Config{Limits: transport.Limits{Memory: tt.memory, Conns: tt.conns}}).Fill()
		if err != nil || c.Limits.Conns != tt.want {
			t.Errorf("%+v: %d, %v", tt, c.Limits.Conns, err)
		}
	}
	// Calls that wait take an eighth of it, 40 KiB each, half of them by what is shared.
	s := newServer(t, newEcho(), &transport.Config{Credits: 64, Limits: transport.Limits{Memory: 16 << 20}})
	if n := s.Stats().PoolCredits; n != 16<<20/(40<<10)/2 {
		t.Errorf("%d credits to share", n)
	}
	if c, err := (&transport.Config{TLS: transport.TLS{Config: new(tls.Config)}}).Fill(); err != nil || c.Limits.Conns != 2048+4096 {
		t.Errorf("with TLS: %d, %v", c.Limits.Conns, err)
	}
}

// TestClientLimits: the meaning of a setting, and where defaults do not apply.
func TestClientLimits(t *testing.T) {
	c, err := (&transport.Config{Limits: transport.Limits{Conns: 80, Pulls: 40, Memory: 6 << 20}, RFC5666: &transport.RFC5666{ExposedMemory: 1000}}).Fill()
	noErr(t, err)
	far, near := tcpAddr("192.0.2.1"), tcpAddr("::1")
	if got, want := c.ClientLimits(far), (transport.ClientLimits{10, 3 << 20, 10, 500}); got != want {
		t.Errorf("defaults: %+v, want %+v", got, want)
	}
	none := transport.ClientLimits{transport.NoCount, transport.NoLimit, transport.NoCount, transport.NoLimit}
	for _, a := range []net.Addr{near, tcpAddr("127.8.8.8"), nil, &net.UnixAddr{Name: "@"}} {
		if got := c.ClientLimits(a); got != none {
			t.Errorf("%v: %+v", a, got)
		}
	}
	c.Limits.PerClient = transport.ClientLimits{1, 2 << 20, 3, 4}
	if got := c.ClientLimits(near); got != c.Limits.PerClient {
		t.Errorf("set: %+v", got)
	}
	c.Limits.PerClient = transport.ClientLimits{-1, -1, -1, -1}
	if got := c.ClientLimits(far); got != none {
		t.Errorf("without limits: %+v", got)
	}
	small := transport.Config{Limits: transport.Limits{Memory: transport.DefaultMaxPayload}}
	if c, err = small.Fill(); err != nil || c.ClientLimits(far).Memory != transport.DefaultMaxPayload {
		t.Errorf("%v: a client gets less than one call", err)
	}
	small.Limits.PerClient.Memory = 5000
	if _, err = small.Fill(); !errors.Is(err, rpc.ErrConfig) {
		t.Errorf("PerClient.Memory below MaxPayload: %v", err)
	}
}

// TestAllow: who is not allowed is told so in the start-up, by every kind of server, and
// has executed nothing.
func TestAllow(t *testing.T) {
	var ran atomic.Int32
	h := rpc.HandlerFunc(func(context.Context, *rpc.Request, *rpc.Response) { ran.Add(1) })
	cfg := testConfig()
	cfg.Limits.Allow, _ = transport.AllowNets("192.0.2.0/24")
	core, log := observer.New(zapcore.InfoLevel)
	cfg.Logger = zap.New(core)
	s := newServer(t, h, cfg)
	l := &listenPipes{conns: make(chan net.Conn)}
	ln := must(transport.NewListener(l, cfg))(t)
	defer ln.Close()
	for name, serve := range map[string]func(net.Conn) error{
		"ServeConn": s.ServeConn, "ServeSharedConn": s.ServeSharedConn,
		"Listener": func(c net.Conn) error { l.conns <- c; return nil },
	} {
		a, b := pipe(t)
		served := make(chan error, 1)
		go func() { served <- serve(seenAt(b, tcpAddr("198.51.100.1"))) }()
		_, err := transport.NewClient(testCtx(t), a, testConfig())
		if _, rejected := errors.AsType[*verbs.RejectError](err); !rejected {
			t.Errorf("%s: the client sees %v", name, err)
		}
		if e, ok := errors.AsType[*rpc.LimitError](<-served); name != "Listener" && (!ok || e.Limit != rpc.LimitAllow || e.Client != "198.51.100.1") {
			t.Errorf("%s: the server says %v", name, e)
		}
	}
	a, b := net.Pipe()
	if err := s.ServeStreamConn(seenAt(b, tcpAddr("198.51.100.1"))); err == nil {
		t.Error("a stream client was admitted")
	}
	if _, err := a.Read(make([]byte, 1)); err == nil {
		t.Error("a stream client was answered")
	}
	if c, err := dialFrom(t, s, "192.0.2.77"); err != nil {
		t.Errorf("the allowed one: %v", err)
	} else {
		mustDo(t, c, &nullCall)
	}
	if n := ran.Load(); n != 1 {
		t.Errorf("%d calls ran, want the allowed one's", n)
	}
	waitFor(t, "the listener has counted", func() bool { return ln.Stats().NotAllowed == 1 })
	if st := s.Stats(); st.NotAllowed != 3 || st.Accepted != 1 || st.Connections != 1 {
		t.Errorf("counted %+v", st)
	}
	if n := log.FilterMessage("transport: connection refused").Len(); n != 4 {
		t.Errorf("%d lines logged, want one for each", n)
	}
}

// listenPipes is a listener whose connections the test makes.
type listenPipes struct{ conns chan net.Conn }

func (l *listenPipes) Accept() (net.Conn, error) {
	if c, ok := <-l.conns; ok {
		return c, nil
	}
	return nil, net.ErrClosed
}
func (l *listenPipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipes"} }
func (l *listenPipes) Close() error   { close(l.conns); return nil }

// TestConnLimits: no more connections than the limits say, of one client and of all; a
// place is free again when a connection has ended.
func TestConnLimits(t *testing.T) {
	cfg := testConfig()
	cfg.Limits.Conns, cfg.Limits.PerClient.Conns = 4, 2
	s := newServer(t, newEcho(), cfg)
	dialed := func(ip string, want bool) *transport.Client {
		t.Helper()
		c, err := dialFrom(t, s, ip)
		if _, rejected := errors.AsType[*verbs.RejectError](err); (err == nil) != want || rejected == want {
			t.Fatalf("%s: %v", ip, err)
		}
		return c
	}
	first := dialed("192.0.2.1", true)
	dialed("192.0.2.1", true)
	dialed("192.0.2.1", false)
	dialed("192.0.2.2", true)
	dialed("192.0.2.3", true)
	dialed("192.0.2.4", false)
	first.Close()
	waitFor(t, "its place is free", func() bool { return s.Stats().Connections == 3 })
	waitFor(t, "the gate knows", func() bool { return s.Gate().Stats().Conns == 3 })
	dialed("192.0.2.1", true)
	if n := s.Stats().TooMany; n != 2 {
		t.Errorf("%d refused, want 2", n)
	}
}

// TestRefusedPeersHoldNothing: more silent peers than can be told are turned away, have
// no place among the connections, and are gone soon (ADVERSARY row 20).
func TestRefusedPeersHoldNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := testConfig()
		cfg.Limits.Conns, cfg.Reading.HandlerLimit = 1, -1
		s, c, end := pipePair(t, newEcho(), cfg, testConfig())
		defer end()
		const refusals = 64 // being told
		start := time.Now()
		var wg sync.WaitGroup
		var over atomic.Int64
		for range 10 * refusals {
			_, b := rdmaptest.Pipe()
			wg.Go(func() {
				if err := s.ServeConn(b); err == nil {
					t.Error("admitted")
				}
				over.Add(1)
			})
		}
		synctest.Wait()
		if n := over.Load(); n != 9*refusals {
			t.Errorf("%d connections are closed, want all but %d", n, refusals)
		}
		goodCall(t, c)
		wg.Wait()
		if d := time.Since(start); d != 2*time.Second {
			t.Errorf("the last was gone after %v", d)
		}
		if st := s.Stats(); st.TooMany != 10*refusals || st.Connections != 1 {
			t.Errorf("%+v", st)
		}
	})
}

// pulling leaves a server with n calls whose chunks it waits for, on one connection that
// it sees at ip.
func pulling(t testing.TB, s *transport.Server, ip string, n int) *stallConn {
	t.Helper()
	a, b := rdmaptest.Pipe()
	sc := &stallConn{Conn: a, stall: make(chan struct{}), gone: make(chan struct{})}
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = s.ServeConn(seenAt(b, tcpAddr(ip))) // ends as the test wants
	}()
	p := &rawPeer{t, rdmap.Client(sc, rawConfig(usualPrivate(), 4096))}
	noErr(t, p.conn.Handshake(testCtx(t)))
	close(sc.stall)
	for xid := range uint32(n) {
		seg := p.offer(make([]byte, 100_000), region.RemoteRead)
		hd := rpcrdma.Header{XID: xid, Lists: chunks.Lists{Read: []chunks.ReadSegment{{Position: 44, Segment: seg}}}}
		p.send(header(hd), rpcCall(xid, procSum, words(100_000)...))
	}
	t.Cleanup(func() {
		sc.Close()
		p.conn.Abort(nil)
		<-p.conn.Done()
		<-served
	})
	return sc
}

// TestClientMemory: a client that does not answer RDMA Reads uses up its own share, on
// all its connections together; its further calls wait, those of others do not.
func TestClientMemory(t *testing.T) {
	for name, limit := range map[string]transport.Limits{
		"memory":       {PerClient: transport.ClientLimits{Memory: 3 * 128 << 10}},
		"pulls":        {PerClient: transport.ClientLimits{Pulls: 3}},
		"pulls of all": {Pulls: 2, PerClient: transport.ClientLimits{Pulls: -1}}, // who is alone on a connection has one
	} {
		t.Run(name, func(t *testing.T) {
			// In no time, since a client that moves nothing for a second while others wait is closed.
			synctest.Test(t, func(t *testing.T) {
				cfg := unwatched(testConfig())
				cfg.Limits = limit
				cfg.MaxPayload, cfg.Limits.Memory = 128<<10, 10*128<<10
				s := newServer(t, newEcho(), cfg)
				pulling(t, s, "192.0.2.1", 2)
				synctest.Wait()
				end := pulling(t, s, "192.0.2.1", 4)
				synctest.Wait()
				if st := s.Stats(); st.Pulls != 3 || st.Waiting != 3 || st.Waited != 3 {
					t.Errorf("want three that are pulled, and three that wait: %+v", st)
				}
				c := must(dialFrom(t, s, "192.0.2.2"))(t)
				for range 20 {
					mustDo(t, c, itemCall(procSum, filled(100_000)))
					synctest.Wait() // it gives back what it held after the reply
				}
				if n := s.Stats().Waited; n != 3 {
					t.Errorf("%d calls waited, want those of the slow client", n)
				}
				end.Close() // its client gets back what it held
				synctest.Wait()
				if st := s.Stats(); st.Waiting != 0 || st.Pulls != 2 {
					t.Errorf("want nobody who waits: %+v", st)
				}
			})
		})
	}
}

// TestSlowLink: a call of a client on a link of 256 kbit/s takes longer than Timeouts.Pull, and completes.
func TestSlowLink(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := rdmaptest.Pipe()
		s := &transport.Server{Handler: newEcho(), Config: unwatched(testConfig())}
		served := make(chan error, 1)
		go func() { served <- s.ServeConn(b) }()
		c := must(transport.NewClient(t.Context(), &slowLink{Conn: a}, testConfig()))(t)
		start := time.Now()
		var r rpc.Reply
		if err := c.Do(t.Context(), itemCall(procSum, filled(1<<20)), &r); err != nil {
			t.Error(err)
		}
		r.Release()
		if d := time.Since(start); d < 30*time.Second {
			t.Errorf("the link is too fast: %v", d)
		}
		c.Close()
		<-served
		s.Close()
	})
}

// slowLink carries 32 KiB a second to the peer.
type slowLink struct{ *rdmaptest.Conn }

func (l *slowLink) Write(p []byte) (n int, err error) {
	for n < len(p) && err == nil {
		k := min(len(p)-n, 4096)
		time.Sleep(time.Duration(k) * time.Second / (32 << 10))
		k, err = l.Conn.Write(p[n : n+k])
		n += k
	}
	return n, err
}

// TestClientExposed: the octets of replies to be read that one client may leave lying, and all together.
func TestClientExposed(t *testing.T) {
	cfg := testConfig()
	cfg.RFC5666, cfg.Limits.PerClient.Exposed = &transport.RFC5666{ExposedMemory: 80_000}, 50_000
	s := newServer(t, newEcho(), cfg)
	ask := func(ip string) rpcrdma.Header {
		a, b := rdmaptest.Pipe()
		served := make(chan struct{})
		go func() { defer close(served); _ = s.ServeConn(seenAt(b, tcpAddr(ip))) }()
		p := &rawPeer{t, rdmap.Client(a, rawConfig(nil, 4096))}
		noErr(t, p.conn.Handshake(testCtx(t)))
		t.Cleanup(func() { p.conn.Abort(nil); <-p.conn.Done(); <-served })
		p.ask(1, 30_000)
		h, _ := p.recv()
		return h
	}
	if h := ask("192.0.2.1"); len(h.Read) == 0 {
		t.Fatalf("not exposed: %+v", h)
	}
	if h := ask("192.0.2.1"); h.Type != rpcrdma.MsgTypeError || h.Err != rpcrdma.ErrChunk {
		t.Errorf("beyond the client's part: %+v", h)
	}
	if h := ask("192.0.2.2"); len(h.Read) == 0 {
		t.Errorf("another client: %+v", h)
	}
	if h := ask("192.0.2.3"); h.Type != rpcrdma.MsgTypeError || h.Err != rpcrdma.ErrChunk {
		t.Errorf("beyond what there is for all: %+v", h)
	}
	if n := s.Stats().ExposedRefused; n != 2 {
		t.Errorf("%d refused", n)
	}
}
