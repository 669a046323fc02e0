package transport

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stag-rdma/stag/chunks"
	"github.com/stag-rdma/stag/rdmap"
	"github.com/stag-rdma/stag/rdmap/rdmaptest"
	"github.com/stag-rdma/stag/rdmap/region"
	"github.com/stag-rdma/stag/rpcrdma"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"
)

// from is a pipe end whose peer has an address of its choice.
type from struct {
	net.Conn
	addr net.Addr
}

func (c *from) RemoteAddr() net.Addr { return c.addr }

// tcpAddr parses ip, to be the address of a peer.
func tcpAddr(ip string) net.Addr { return &net.TCPAddr{IP: net.ParseIP(ip), Port: 700} }

// dialFrom connects a client that s sees at the address ip, or returns the error.
func dialFrom(t testing.TB, s *Server, ip string) (*Client, error) {
	t.Helper()
	a, b := rdmaptest.Pipe()
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = s.ServeConn(&from{b, tcpAddr(ip)}) // the tests look at the client's error
	}()
	c, err := NewClient(testCtx(t), a, testConfig())
	if err != nil {
		a.Close()
		<-served
		return nil, err
	}
	t.Cleanup(func() { c.Close(); <-served })
	return c, nil
}

// newServer is a server whose connections the test makes.
func newServer(t testing.TB, h Handler, cfg *Config) *Server {
	t.Helper()
	s := &Server{Handler: h, Config: cfg}
	t.Cleanup(func() { s.Close() })
	if err := s.init(); err != nil {
		t.Fatal(err)
	}
	return s
}

func TestAllowNets(t *testing.T) {
	allow, err := AllowNets("192.0.2.0/24", "2001:db8::/32", "198.51.100.7", "fe80::1%eth0", "::ffff:203.0.113.0/120")
	if err != nil {
		t.Fatal(err)
	}
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
		if _, err := AllowNets(bad); !errors.Is(err, ErrConfig) {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

// TestClientLimits: the meaning of a setting, and where defaults do not apply.
func TestClientLimits(t *testing.T) {
	c, err := (&Config{MaxConns: 80, MaxPulls: 40, RequestMemory: 6 << 20, ExposedMemory: 1000}).fill()
	if err != nil {
		t.Fatal(err)
	}
	far, near := tcpAddr("192.0.2.1"), tcpAddr("::1")
	if got, want := c.clientLimits(far), (ClientLimits{10, 3 << 20, 10, 500}); got != want {
		t.Errorf("defaults: %+v, want %+v", got, want)
	}
	none := ClientLimits{noCount, noLimit, noCount, noLimit}
	for _, a := range []net.Addr{near, tcpAddr("127.8.8.8"), nil, &net.UnixAddr{Name: "@"}} {
		if got := c.clientLimits(a); got != none {
			t.Errorf("%v: %+v", a, got)
		}
	}
	c.PerClient = ClientLimits{1, 2 << 20, 3, 4}
	if got := c.clientLimits(near); got != c.PerClient {
		t.Errorf("set: %+v", got)
	}
	c.PerClient = ClientLimits{-1, -1, -1, -1}
	if got := c.clientLimits(far); got != none {
		t.Errorf("without limits: %+v", got)
	}
	small := Config{RequestMemory: DefaultMaxPayload}
	if c, err = small.fill(); err != nil || c.clientLimits(far).Memory != DefaultMaxPayload {
		t.Errorf("%v: a client gets less than one call", err)
	}
	small.PerClient.Memory = 5000
	if _, err = small.fill(); !errors.Is(err, ErrConfig) {
		t.Errorf("PerClient.Memory below MaxPayload: %v", err)
	}
}

// TestAllow: who is not allowed is told so in the start-up, by every kind of server, and
// has executed nothing.
func TestAllow(t *testing.T) {
	var ran atomic.Int32
	h := HandlerFunc(func(context.Context, *Request, *Response) { ran.Add(1) })
	cfg := testConfig()
	cfg.Allow, _ = AllowNets("192.0.2.0/24")
	core, log := observer.New(zapcore.InfoLevel)
	cfg.Logger = zap.New(core)
	s := newServer(t, h, cfg)
	l := &listenPipes{conns: make(chan net.Conn)}
	ln, err := NewListener(l, cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	for name, serve := range map[string]func(net.Conn) error{
		"ServeConn": s.ServeConn, "ServeSharedConn": s.ServeSharedConn,
		"Listener": func(c net.Conn) error { l.conns <- c; return nil },
	} {
		a, b := rdmaptest.Pipe()
		served := make(chan error, 1)
		go func() { served <- serve(&from{b, tcpAddr("198.51.100.1")}) }()
		_, err := NewClient(testCtx(t), a, testConfig())
		if _, rejected := errors.AsType[*rdmap.RejectError](err); !rejected {
			t.Errorf("%s: the client sees %v", name, err)
		}
		if e, ok := errors.AsType[*LimitError](<-served); name != "Listener" && (!ok || e.Limit != LimitAllow || e.Client != "198.51.100.1") {
			t.Errorf("%s: the server says %v", name, e)
		}
	}
	a, b := net.Pipe()
	if err := s.ServeStreamConn(&from{b, tcpAddr("198.51.100.1")}); err == nil {
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
	cfg.MaxConns, cfg.PerClient.Conns = 4, 2
	s := newServer(t, newEcho(), cfg)
	dialed := func(ip string, want bool) *Client {
		t.Helper()
		c, err := dialFrom(t, s, ip)
		if _, rejected := errors.AsType[*rdmap.RejectError](err); (err == nil) != want || rejected == want {
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
	waitFor(t, "the door knows", func() bool {
		s.door.mu.Lock()
		defer s.door.mu.Unlock()
		return s.door.total == 3
	})
	dialed("192.0.2.1", true)
	if n := s.Stats().TooMany; n != 2 {
		t.Errorf("%d refused, want 2", n)
	}
}

// TestDoorForgets: a client without connections leaves nothing behind, nor does one that
// was refused.
func TestDoorForgets(t *testing.T) {
	cfg, _ := (&Config{MaxConns: 1}).fill()
	g := newDoor(cfg, new(counters))
	for i := range 1000 {
		a := tcpAddr(net.IPv4(10, 0, byte(i>>8), byte(i)).String())
		cl, err := g.enter(a)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := g.enter(tcpAddr("10.9.9.9")); err == nil {
			t.Fatal("above MaxConns")
		}
		g.leave(cl)
	}
	if len(g.clients) != 0 || g.total != 0 {
		t.Errorf("%d clients, %d connections kept", len(g.clients), g.total)
	}
}

// TestRefusedPeersHoldNothing: more silent peers than can be told are turned away, have
// no place among the connections, and are gone soon (ADVERSARY row 20).
func TestRefusedPeersHoldNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := testConfig()
		cfg.MaxConns, cfg.HandlerGrace = 1, -1
		s, c, end := pipePair(t, newEcho(), cfg, testConfig())
		defer end()
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
		if n := len(s.door.telling); n != refusals || over.Load() != 9*refusals {
			t.Errorf("%d refusals are being sent, %d connections are closed", n, over.Load())
		}
		goodCall(t, c)
		wg.Wait()
		if d := time.Since(start); d != refusalTimeout {
			t.Errorf("the last was gone after %v", d)
		}
		if st := s.Stats(); st.TooMany != 10*refusals || st.Connections != 1 {
			t.Errorf("%+v", st)
		}
	})
}

// TestRefusalsSampled: a client that is refused again and again does not fill the log.
func TestRefusalsSampled(t *testing.T) {
	core, log := observer.New(zapcore.InfoLevel)
	cfg, err := (&Config{Logger: zap.New(core), Allow: func(net.Addr) bool { return false }}).fill()
	if err != nil {
		t.Fatal(err)
	}
	g := newDoor(cfg, new(counters))
	for range 5000 {
		_, err := g.enter(tcpAddr("192.0.2.1"))
		g.stranger("x", err)
		g.stranger("x", &OpError{Op: OpAccept, Err: os.ErrDeadlineExceeded})
	}
	if n := log.Len(); n < 20 || n > 600 { // a second may end meanwhile
		t.Errorf("%d lines for 10000 events", n)
	}
	if n := g.ctr.notAllowed.Load(); n != 5000 {
		t.Errorf("%d counted", n)
	}
}

// pulling leaves a server with n calls whose chunks it waits for, on one connection that
// it sees at ip.
func pulling(t testing.TB, s *Server, ip string, n int) *stallConn {
	t.Helper()
	a, b := rdmaptest.Pipe()
	sc := &stallConn{Conn: a, stall: make(chan struct{}), gone: make(chan struct{})}
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = s.ServeConn(&from{b, tcpAddr(ip)}) // ends as the test wants
	}()
	p := &rawPeer{t, rdmap.Client(sc, rawConfig(usualPrivate(), 4096))}
	if err := p.conn.Handshake(testCtx(t)); err != nil {
		t.Fatal(err)
	}
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
	for name, limit := range map[string]ClientLimits{
		"memory": {Memory: 3 * 128 << 10}, "pulls": {Pulls: 3},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := testConfig()
			cfg.MaxPayload, cfg.RequestMemory, cfg.PerClient = 128<<10, 10*128<<10, limit
			s := newServer(t, newEcho(), cfg)
			pulling(t, s, "192.0.2.1", 2)
			end := pulling(t, s, "192.0.2.1", 4)
			waitFor(t, "three are pulled, three wait", func() bool {
				st := s.Stats()
				return st.Pulls == 3 && st.Waiting == 3 && st.Waited == 3
			})
			c, err := dialFrom(t, s, "192.0.2.2")
			if err != nil {
				t.Fatal(err)
			}
			for range 20 {
				mustDo(t, c, itemCall(procSum, filled(100_000)))
			}
			if n := s.Stats().Waited; n != 3 {
				t.Errorf("%d calls waited, want those of the slow client", n)
			}
			end.Close() // its client gets back what it held
			waitFor(t, "nobody waits", func() bool { st := s.Stats(); return st.Waiting == 0 && st.Pulls == 2 })
		})
	}
}

// TestMaxPulls: the places of all are bounded too, and whoever is alone on a connection
// has one all the same.
func TestMaxPulls(t *testing.T) {
	cfg := testConfig()
	cfg.MaxPulls, cfg.PerClient.Pulls = 2, -1
	s := newServer(t, newEcho(), cfg)
	pulling(t, s, "192.0.2.1", 5)
	waitFor(t, "two are pulled", func() bool { st := s.Stats(); return st.Pulls == 2 && st.Waiting == 3 })
	c, err := dialFrom(t, s, "192.0.2.2")
	if err != nil {
		t.Fatal(err)
	}
	for range 20 {
		mustDo(t, c, itemCall(procSum, filled(100_000)))
	}
}

// TestSpareMemory: calls that are alone on their connections cannot use up memory
// without bound either.
func TestSpareMemory(t *testing.T) {
	cfg := testConfig()
	cfg.MaxPayload, cfg.RequestMemory = 128<<10, 2*128<<10
	s := newServer(t, newEcho(), cfg)
	for i := range 7 {
		pulling(t, s, net.IPv4(192, 0, 2, byte(i)).String(), 1)
	}
	waitFor(t, "as many as fit", func() bool { st := s.Stats(); return st.Pulls == 4 && st.Waiting == 3 })
}

// TestClientExposed: the octets of replies to be read that one client may leave lying.
func TestClientExposed(t *testing.T) {
	cfg := testConfig()
	cfg.Profile, cfg.PerClient.Exposed = ProfileRFC5666, 50_000
	s := newServer(t, newEcho(), cfg)
	ask := func(ip string) rpcrdma.Header {
		a, b := rdmaptest.Pipe()
		served := make(chan struct{})
		go func() { defer close(served); _ = s.ServeConn(&from{b, tcpAddr(ip)}) }()
		p := &rawPeer{t, rdmap.Client(a, rawConfig(nil, 4096))}
		if err := p.conn.Handshake(testCtx(t)); err != nil {
			t.Fatal(err)
		}
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
	if n := s.Stats().ExposedRefused; n != 1 {
		t.Errorf("%d refused", n)
	}
}

// TestBudgetModel lets random calls of random clients come, be pulled, answered and
// forgotten. At every step nobody has more than a share, all together have no more
// than there is, nobody waits who could continue, and at the end all is back.
func TestBudgetModel(t *testing.T) {
	const octets, pulls, spare, one = 500, 4, 250, 100
	for seed := range uint64(100) {
		rnd := rand.New(rand.NewPCG(seed, 7))
		b := budget{pulls: pulls, spare: spare}
		b.left.Store(octets)
		var conns []*respConn
		for range 3 {
			cl := &client{limits: ClientLimits{Memory: 400, Pulls: 3}}
			cl.share.init(cl.limits)
			conns = append(conns, &respConn{client: cl}, &respConn{client: cl})
		}
		var mu sync.Mutex
		granted := make(map[*exchange]bool)
		waiting := make(map[*exchange]bool)
		then := func(x *exchange) {
			mu.Lock()
			defer mu.Unlock()
			granted[x] = true
			delete(waiting, x)
		}
		settle := func() { // the goroutines of then have run
			for {
				mu.Lock()
				n := len(waiting)
				mu.Unlock()
				if int(b.queued.Load()) == n {
					return
				}
				time.Sleep(time.Microsecond)
			}
		}
		for range 300 {
			mu.Lock()
			var some *exchange
			for x := range granted {
				some = x
				break
			}
			mu.Unlock()
			switch op := rnd.IntN(10); {
			case op < 5:
				x := &exchange{rc: conns[rnd.IntN(len(conns))], then: then}
				n := rnd.IntN(one)
				mu.Lock()
				waiting[x] = true
				mu.Unlock()
				if b.take(x, n) || b.takeOrWait(x, n) {
					then(x)
				}
			case op < 6 && some != nil:
				b.pulled(some)
			case op < 9 && some != nil:
				if rnd.IntN(3) == 0 {
					b.force(some, rnd.IntN(one))
				}
				mu.Lock()
				delete(granted, some)
				mu.Unlock()
				b.give(some)
			case op == 9:
				list := b.forget(conns[rnd.IntN(len(conns))])
				mu.Lock()
				for _, x := range list {
					delete(waiting, x)
				}
				mu.Unlock()
			}
			settle()
			checkBudget(t, &b, conns, octets, pulls)
			if t.Failed() {
				t.Fatalf("seed %d", seed)
			}
		}
		for len(granted) > 0 {
			for x := range granted {
				delete(granted, x)
				b.give(x)
				break
			}
			settle()
		}
		if b.left.Load() != octets || b.spare != spare || b.pulls != pulls || b.queued.Load() != 0 || b.running != 0 {
			t.Fatalf("seed %d: at the end left %d spare %d pulls %d queued %d running %d",
				seed, b.left.Load(), b.spare, b.pulls, b.queued.Load(), b.running)
		}
	}
}

func checkBudget(t *testing.T, b *budget, conns []*respConn, octets, pulls int) {
	t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	waiting := len(b.queue)
	for _, rc := range conns {
		s := &rc.client.share
		if s.pulls < 0 {
			t.Errorf("a client pulls %d too many", -s.pulls)
		}
		if len(s.queue) > 0 && s.has(s.queue[0].want) {
			t.Error("a call waits although its share suffices")
		}
	}
	for i := 0; i < len(conns); i += 2 {
		waiting += len(conns[i].client.share.queue)
	}
	if waiting != int(b.queued.Load()) {
		t.Errorf("%d wait, %d counted", waiting, b.queued.Load())
	}
	if len(b.queue) > 0 && b.has(b.queue[0].want) {
		t.Error("a call waits although there is enough")
	}
	for _, x := range b.queue {
		if x.rc.holding == 0 && b.spare >= int64(x.want) {
			t.Error("a call waits although its connection holds nothing")
		}
	}
	if b.spare < 0 || b.pulls < 0 || int(b.left.Load()) > octets || b.pulls > pulls {
		t.Errorf("left %d spare %d pulls %d", b.left.Load(), b.spare, b.pulls)
	}
}
