package commitlog_test

import (
	"context"
	"net"
	"os"
	"testing"

	"github.com/stag-rdma/stag/rdmap"
	"github.com/stag-rdma/stag/rdmap/rdmaptest"
	"github.com/stag-rdma/stag/rdmap/region"
	"github.com/stag-rdma/stag/rdmap/region/pmem/pmemtest"
	"github.com/stag-rdma/stag/transport/commitlog"
)

// TestMain fails the package if a test leaks a goroutine.
func TestMain(m *testing.M) {
	if role := os.Getenv(childRole); role != "" {
		os.Exit(runChild(role))
	}
	rdmaptest.Main(m)
}

// onWires runs f over a pipe and over TCP: dial makes another connection.
func onWires(t *testing.T, f func(t *testing.T, dial func() (a, b net.Conn))) {
	t.Helper()
	t.Run("pipe", func(t *testing.T) {
		f(t, func() (net.Conn, net.Conn) { return rdmaptest.Pipe() })
	})
	t.Run("tcp", func(t *testing.T) {
		l := must(net.Listen("tcp", "127.0.0.1:0"))(t)
		t.Cleanup(func() { l.Close() })
		f(t, func() (net.Conn, net.Conn) { return dialTCP(t, l) })
	})
}

func dialTCP(t *testing.T, l net.Listener) (a, b net.Conn) {
	t.Helper()
	a, err := net.Dial("tcp", l.Addr().String())
	noErr(t, err)
	b = must(l.Accept())(t)
	return a, b
}

func pipes() (net.Conn, net.Conn) { return rdmaptest.Pipe() }

// newTestLog makes a log on mem.
func newTestLog(t *testing.T, mem region.Memory, mode commitlog.Mode) *commitlog.Log {
	t.Helper()
	noErr(t, commitlog.Create(mem, &commitlog.Options{Mode: mode}))
	return openLog(t, mem)
}

func openLog(t *testing.T, mem region.Memory) *commitlog.Log {
	t.Helper()
	l := must(commitlog.Open(mem))(t)
	t.Cleanup(func() {
		if err := l.Close(context.Background()); err != nil {
			t.Error("close:", err)
		}
	})
	return l
}

func sim(ring int) *pmemtest.Sim { return pmemtest.NewSim(20480+ring, nil) }

// faulty is a memory whose flushes fail or hang as f says.
func faulty(ring int) (m *pmemtest.Sim, f *pmemtest.Faults) {
	f = pmemtest.NewFaults()
	return pmemtest.NewSim(20480+ring, &pmemtest.SimOptions{Hook: f.Hook()}), f
}

// connect makes a connection between p and a consumer, which is served.
func connect(t *testing.T, p *commitlog.Producer, dial func() (a, b net.Conn), consumer *rdmap.Config) (c, s *rdmap.Conn) {
	t.Helper()
	a, b := dial()
	if consumer == nil {
		consumer = commitlog.Config(nil)
	}
	c, s = rdmap.Client(a, p.Config(nil)), rdmap.Server(b, consumer)
	ready := make(chan error, 1)
	go func() { ready <- s.Handshake(t.Context()) }()
	noErr(t, c.Handshake(t.Context()))
	noErr(t, <-ready)
	served := make(chan error, 1)
	go func() { served <- s.Serve() }()
	t.Cleanup(func() {
		c.Close()
		s.Close()
		<-served
	})
	return c, s
}

// session opens a session for p on l.
func session(t *testing.T, l *commitlog.Log, p *commitlog.Producer, dial func() (a, b net.Conn)) (c, s *rdmap.Conn) {
	t.Helper()
	c, s = connect(t, p, dial, nil)
	a := must(l.Advertise(t.Context(), s))(t)
	noErr(t, p.Open(c, a))
	return c, s
}

func newTestProducer(t *testing.T, o *commitlog.ProducerOptions) *commitlog.Producer {
	t.Helper()
	p := commitlog.NewProducer(o)
	t.Cleanup(p.Close)
	return p
}

// take reads n records and checks that they are the payloads in order.
func take(t *testing.T, l *commitlog.Log, first uint64, payloads ...string) {
	t.Helper()
	for i, want := range payloads {
		r := must(l.Next(t.Context()))(t)
		if r.Seq != first+uint64(i) || string(r.Payload) != want {
			t.Fatalf("record %d %q, want %d %q", r.Seq, r.Payload, first+uint64(i), want)
		}
	}
}

// must returns v, unless err ends the test.
func must[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		noErr(t, err)
		return v
	}
}

// noErr ends the test if err is an error.
func noErr(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
