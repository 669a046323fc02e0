package rdmap_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stag-rdma/stag/rdmap"
	"github.com/stag-rdma/stag/rdmap/internal/buf"
	"github.com/stag-rdma/stag/rdmap/rdmaptest"
	"github.com/stag-rdma/stag/rdmap/region"
	"github.com/stag-rdma/stag/rdmap/verbs"
)

// ends are the two ends of a connection of the suite, and the settings of its variant.
type ends struct {
	a, b    net.Conn
	markers bool
}

// connect is the function connect with the settings of the variant.
func (e ends) connect(t *testing.T, cx, cy *rdmap.Config) (x, y *rdmap.Conn) {
	t.Helper()
	var own [2]rdmap.Config
	for i, c := range []*rdmap.Config{cx, cy} {
		if c != nil {
			own[i] = *c
		}
		own[i].Startup.Markers = e.markers
	}
	x, y = rdmaptest.Connect(t, e.a, e.b, &own[0], &own[1])
	if s := x.ConnectionState(); s.SendMarkers != e.markers || s.RecvMarkers != e.markers {
		t.Fatalf("%+v, markers %v", s, e.markers)
	}
	return x, y
}

// TestConns runs one suite on every kind of net.Conn, without and with markers. The tests that use
// onWires are the rest of the suite.
func TestConns(t *testing.T) {
	t.Parallel()
	suite := []struct {
		name string
		test func(t *testing.T, e ends)
	}{
		{"startup", connsStartup},
		{"sends", connsSends},
		{"reads", connsReads},
		{"large", connsLarge},
		{"idle", connsIdle},
		{"waiters", connsWaiters},
		{"atomics", connsAtomics},
		{"immediate", connsImmediate},
		{"commit", connsCommit},
		{"commit fails", connsCommitFails},
		{"misuse", func(t *testing.T, e ends) { connsTerminate(t, e, false) }},
		{"misuse back", func(t *testing.T, e ends) { connsTerminate(t, e, true) }},
		{"ends", connsEnds},
	}
	for name, wire := range Wires {
		t.Run(name, func(t *testing.T) {
			for _, c := range suite {
				t.Run(c.name, func(t *testing.T) {
					a, b := wire(t)
					c.test(t, ends{a: a, b: b})
				})
				t.Run(c.name+" with markers", func(t *testing.T) {
					a, b := wire(t)
					c.test(t, ends{a, b, true})
				})
			}
		})
	}
}

// connsStartup: depths and private data of both sides are agreed upon.
func connsStartup(t *testing.T, e ends) {
	x, y := e.connect(t, &rdmap.Config{Startup: rdmap.Startup{PrivateData: []byte("hello"), IRD: 3, ORD: 9}}, &rdmap.Config{Startup: rdmap.Startup{IRD: 5, ORD: 7}})
	sx, sy := x.ConnectionState(), y.ConnectionState()
	if string(y.PeerPrivateData()) != "hello" || !sx.CRC || !sy.CRC || !sx.StagPeer {
		t.Fatalf("%q, %+v, %+v", y.PeerPrivateData(), sx, sy)
	}
	if sx.ORD != 5 || sy.ORD != 3 {
		t.Fatalf("ORD %d and %d, want the other's IRD: 5 and 3", sx.ORD, sy.ORD)
	}
}

// connsSends: every kind of Send in both directions, in order.
func connsSends(t *testing.T, e ends) {
	x, y := e.connect(t, nil, nil)
	for _, d := range [][2]*rdmap.Conn{{x, y}, {y, x}} {
		from, to := d[0], d[1]
		regs := []region.Region{MustRegister(t, to, 8, rdmaptest.AllRights), MustRegister(t, to, 8, rdmaptest.AllRights)}
		wrs := []verbs.WR{
			{Op: verbs.OpSend, Body: rdmaptest.Pattern(1)},
			{Op: verbs.OpSendSE, Head: rdmaptest.Pattern(7), Body: rdmaptest.Pattern(2000)},
			{Op: verbs.OpSendInvalidate, Body: rdmaptest.Pattern(3), STag: regs[0].STag()},
			{Op: verbs.OpSendSEInvalidate, Body: rdmaptest.Pattern(4), STag: regs[1].STag()},
		}
		noErr(t, from.Post(wrs))
		for i := range wrs {
			m, err := to.Recv(t.Context())
			if err != nil || m.Op != wrs[i].Op || len(m.Data) != len(wrs[i].Head)+len(wrs[i].Body) {
				t.Fatalf("message %d: %+v, %v", i, m, err)
			}
			if m.Solicited != (i&1 == 1) || m.Invalidated != wrs[i].STag {
				t.Fatalf("message %d: %+v", i, m)
			}
		}
		if regs[0].Valid() || regs[1].Valid() {
			t.Fatal("an invalidated region is valid")
		}
	}
}

// connsReads: more Reads at once than ORD permits, both ways at the same time.
func connsReads(t *testing.T, e ends) {
	x, y := e.connect(t, &rdmap.Config{Startup: rdmap.Startup{IRD: 2, ORD: 2}}, &rdmap.Config{Startup: rdmap.Startup{IRD: 2, ORD: 2}})
	var wg sync.WaitGroup
	for _, d := range [][2]*rdmap.Conn{{x, y}, {y, x}} {
		mem := rdmaptest.Pattern(50000)
		reg := must(d[1].Register(mem, region.RemoteRead))(t)
		for i := range 12 {
			wg.Go(func() {
				sink := make([]byte, i*3001)
				if err := d[0].Read(t.Context(), sink, reg.STag(), uint64(i)); err != nil {
					t.Error(err)
				} else if !bytes.Equal(sink, mem[i:i+len(sink)]) {
					t.Errorf("read %d: the octets differ", i)
				}
			})
		}
	}
	wg.Wait()
}

// connsLarge: a Write and a Send that take many FPDUs and more than any buffer holds.
func connsLarge(t *testing.T, e ends) {
	const n = 3<<20 + 5
	x, y := e.connect(t, nil, &rdmap.Config{Receives: rdmap.Receives{Size: n}})
	mem := make([]byte, n)
	reg := must(y.Register(mem, region.RemoteWrite))(t)
	go func() {
		_ = x.Write(t.Context(), rdmaptest.Pattern(n), reg.STag(), 0)
		_ = x.Send(t.Context(), rdmaptest.Pattern(n))
	}()
	m := must(y.Recv(t.Context()))(t)
	if !bytes.Equal(m.Data, rdmaptest.Pattern(n)) || !bytes.Equal(mem, rdmaptest.Pattern(n)) {
		t.Fatal("the octets differ")
	}
}

// connsIdle: messages arrive unsolicited, after pauses between calls in which the watcher takes over.
func connsIdle(t *testing.T, e ends) {
	t.Parallel()
	h := rdmaptest.NewCollector()
	x, y := e.connect(t, &rdmap.Config{Handler: h}, nil)
	reg := MustRegister(t, y, 64, region.RemoteRead)
	go y.Serve()
	for i := range 3 {
		noErr(t, x.Read(t.Context(), make([]byte, 64), reg.STag(), 0))
		for range i {
			time.Sleep(4 * Tick)
			noErr(t, y.Send(t.Context(), rdmaptest.Pattern(10)))
			Within(t, "the message", h.Got)
		}
	}
}

// connsWaiters: a hundred goroutines wait, some give up, and the others get what they wait for.
func connsWaiters(t *testing.T, e ends) {
	h := &Calls{Pending: make(map[uint64]*rdmap.Waiter)}
	s := new(Shuffler)
	x, y := e.connect(t, &rdmap.Config{Handler: h, Receives: rdmap.Receives{Count: 200}}, &rdmap.Config{Handler: s, Receives: rdmap.Receives{Count: 200}})
	go y.Serve()
	var wg sync.WaitGroup
	for i := range uint64(100) {
		wg.Go(func() {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if i%5 == 0 {
				cancel()
			}
			if err := h.Call(ctx, x, i, 100); err != nil && i%5 != 0 {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	s.Wg.Wait()
}

// connsTerminate: what the peer may not do is refused, and both sides know why. The first FPDU of the
// initiator is valid, since an invalid one would not be answered.
func connsTerminate(t *testing.T, e ends, back bool) {
	x, y := e.connect(t, nil, nil)
	noErr(t, x.Send(t.Context(), nil))
	if _, err := y.Recv(t.Context()); err != nil {
		t.Fatal(err)
	}
	from, to := x, y
	if back {
		from, to = y, x
	}
	noErr(t, from.Write(t.Context(), rdmaptest.Pattern(9), 0xbad, 0))
	_, err := to.Recv(t.Context())
	if _, ok := errors.AsType[*verbs.ProtocolError](err); !ok {
		t.Fatalf("the refusing side: %v", err)
	}
	_, err = from.Recv(t.Context())
	te, ok := errors.AsType[*verbs.TerminateError](err)
	if !ok || te.Terminate.Code != (verbs.TermCode{Layer: 1, EType: 1, Code: 0}) {
		t.Fatalf("the refused side: %v", err)
	}
}

// connsEnds: a close arrives after everything that was sent before it. Afterwards everything fails and
// nothing hangs.
func connsEnds(t *testing.T, e ends) {
	x, y := e.connect(t, nil, nil)
	for range 20 {
		noErr(t, x.Post([]verbs.WR{{Op: verbs.OpSend, Body: rdmaptest.Pattern(4000)}}))
	}
	closed := make(chan error, 1)
	go func() { closed <- x.Close() }()
	for i := range 20 {
		if _, err := y.Recv(t.Context()); err != nil {
			t.Fatalf("message %d: %v", i, err)
		}
	}
	if _, err := y.Recv(t.Context()); !errors.Is(err, io.EOF) {
		t.Fatalf("after the last message: %v", err)
	}
	if err := <-closed; err != nil {
		t.Fatal(err)
	}
	if err := y.Read(t.Context(), make([]byte, 1), 1, 0); !errors.Is(err, net.ErrClosed) {
		t.Fatal(err)
	}
}

// TestAbortIsAtOnce: a TLS peer that does not read delays neither Abort nor Done, although the Close of
// crypto/tls waits five seconds to send its alert.
func TestAbortIsAtOnce(t *testing.T) {
	cfg := must(TlsConfig())(t)
	synctest.Test(t, func(t *testing.T) {
		a, b := rdmaptest.PipeSize(3000)
		x, y := rdmap.Client(tls.Client(a, &tls.Config{InsecureSkipVerify: true}), nil), rdmap.Server(tls.Server(b, cfg), nil)
		go y.Handshake(t.Context())
		noErr(t, x.Handshake(t.Context()))
		if _, err := a.Write(make([]byte, 2990)); err != nil { // leaves no room
			t.Fatal(err)
		}
		start := time.Now()
		x.Abort(rdmaptest.ErrTest)
		<-x.Done()
		if d := time.Since(start); d > 0 {
			t.Errorf("took %v", d)
		}
		b.Close()
		y.Abort(nil)
		<-y.Done()
	})
}

// deadlineConn remembers its write deadline and counts writes.
type deadlineConn struct {
	net.Conn
	mu       sync.Mutex
	deadline time.Time
	writes   int
}

func (c *deadlineConn) SetWriteDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.deadline = t
	return c.Conn.SetWriteDeadline(t)
}

func (c *deadlineConn) Write(p []byte) (int, error) {
	c.mu.Lock()
	c.writes++
	c.mu.Unlock()
	return c.Conn.Write(p)
}

// TestWritesOfOtherConns: a link without gathered output makes few, long writes, and leaves no deadline
// set.
func TestWritesOfOtherConns(t *testing.T) {
	a, b := rdmaptest.Pipe()
	d := &deadlineConn{Conn: a}
	x, y := rdmaptest.Connect(t, d, b, nil, nil)
	const n = 4 << 20
	reg := must(y.Register(make([]byte, n), region.RemoteWrite|region.RemoteRead))(t)
	go y.Serve()
	noErr(t, x.Write(t.Context(), rdmaptest.Pattern(n), reg.STag(), 0))
	noErr(t, x.Read(t.Context(), make([]byte, 1), reg.STag(), n-1))
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.writes > n/buf.ChunkSize*5/4 {
		t.Errorf("%d writes for %d octets", d.writes, n)
	}
	if !d.deadline.IsZero() {
		t.Errorf("a write deadline is left at %v", d.deadline)
	}
}
