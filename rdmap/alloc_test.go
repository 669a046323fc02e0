package rdmap

import (
	"net"
	"runtime"
	"testing"
	"time"

	"github.com/stag-rdma/stag/rdmap/internal/engine"
	"github.com/stag-rdma/stag/rdmap/internal/enginetest"
	"github.com/stag-rdma/stag/rdmap/region"
	"github.com/stag-rdma/stag/rdmap/verbs"
)

// TestConnAllocs is the same for a round trip over TCP: Post, flush, Serve, upcall,
// Wait.
func TestConnAllocs(t *testing.T) {
	if enginetest.Poisoning {
		t.Skip("the race detector allocates")
	}
	for _, markers := range []bool{false, true} {
		connAllocs(t, markers)
	}
}

func connAllocs(t *testing.T, markers bool) {
	p, q := tcpPair(t)
	h := new(caller)
	x, y := connect(t, p, q, &Config{Handler: h, Markers: markers}, &Config{Handler: echoer{}, Markers: markers})
	go y.Serve()
	wrs := []verbs.WR{{Op: verbs.OpSend, Head: make([]byte, 100)}}
	round := func() {
		h.w.Reset()
		if err := x.Post(wrs); err != nil {
			t.Fatal(err)
		}
		if err := x.Wait(t.Context(), &h.w); err != nil {
			t.Fatal(err)
		}
	}
	roundBackground := func() {
		h.w.Reset()
		if err := x.Post(wrs); err != nil {
			t.Fatal(err)
		}
		if err := x.Wait(background, &h.w); err != nil {
			t.Fatal(err)
		}
	}
	for range 100 {
		round()
	}
	if n := testing.AllocsPerRun(200, roundBackground); n > 0 {
		t.Errorf("markers %v: %v allocations per round trip", markers, n)
	}
}

// TestIdleMemory: a connection in Serve that is idle after traffic costs at most 16 KiB, including its
// goroutine.
func TestIdleMemory(t *testing.T) {
	if enginetest.Poisoning {
		t.Skip("the race detector needs memory of its own")
	}
	for _, markers := range []bool{false, true} {
		idleMemory(t, markers)
	}
}

func idleMemory(t *testing.T, markers bool) {
	const n = 100
	clients, conns := make([]net.Conn, n), make([]*Conn, n)
	xs := make([]*Conn, n)
	for i := range n {
		p, q := tcpPair(t)
		clients[i] = p
		h := new(caller)
		xs[i], conns[i] = connect(t, p, q, &Config{Handler: h, Markers: markers}, &Config{Handler: echoer{}, Markers: markers})
	}
	before := inUse()
	for i := range n {
		go conns[i].Serve()
		for range 20 {
			w := &xs[i].cfg.Handler.(*caller).w
			w.Reset()
			if err := xs[i].Post([]verbs.WR{{Op: verbs.OpSend, Body: make([]byte, 4000)}}); err != nil {
				t.Fatal(err)
			}
			if err := xs[i].Wait(t.Context(), w); err != nil {
				t.Fatal(err)
			}
		}
	}
	grown := 0
	for range 50 { // ticks, which a busy machine delays
		time.Sleep(3 * tickEvery)
		if grown = (inUse() - before) / n; grown <= 16<<10 {
			break
		}
	}
	t.Logf("markers %v: %d octets for each pair of connections", markers, grown)
	if grown > 16<<10 {
		t.Errorf("an idle pair costs %d octets more than before its traffic", grown)
	}
}

func inUse() int {
	for range 3 {
		runtime.GC()
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc + m.StackInuse)
}

// refill posts a receive for each message.
type refill struct{}

func (refill) HandleRecv(c *Conn, _ *verbs.Message) { c.PostRecv(1) }
func (refill) HandleClose(*Conn, error)             {}

// TestRequestAllocs: no allocation per atomic, Flush, Verify, Atomic Write and
// Immediate over TCP, at both ends together.
func TestRequestAllocs(t *testing.T) {
	if enginetest.Poisoning {
		t.Skip("the race detector allocates")
	}
	p, q := tcpPair(t)
	x, y := connect(t, p, q, &Config{Extensions: engine.ExtAll}, &Config{Extensions: engine.ExtAll, Handler: refill{}})
	mem := &enginetest.Persisting{Mem: make([]byte, 8192)}
	reg, _ := y.Table().RegisterMemory(mem, region.Options{Access: enginetest.CommitRights | region.Atomic})
	go y.Serve()
	s, sum, long := reg.STag(), enginetest.Castagnoli(make([]byte, 64)), enginetest.Castagnoli(make([]byte, 8000))
	for name, f := range map[string]func() error{
		"FetchAdd":       func() error { _, err := x.FetchAdd(background, s, 8184, 1, 0); return err },
		"CmpSwap":        func() error { _, err := x.CmpSwap(background, s, 8184, 1, 2, 3, 4); return err },
		"Swap":           func() error { _, err := x.Swap(background, s, 8184, 1); return err },
		"flush G":        func() error { return x.Flush(background, s, 0, 64, verbs.FlushVisible) },
		"flush P":        func() error { return x.Flush(background, s, 0, 64, verbs.FlushPersistent) },
		"verify":         func() error { _, err := x.Verify(background, s, 0, 64, sum); return err },
		"verify of much": func() error { _, err := x.Verify(background, s, 0, 8000, long); return err },
		"atomic write":   func() error { return x.AtomicWrite(background, s, 8176, [8]byte{1}) },
		"immediate":      func() error { return x.SendImmediate(background, [8]byte{1}, true) },
	} {
		round := func() {
			if err := f(); err != nil {
				t.Fatal(name, err)
			}
		}
		for range 20 {
			round()
		}
		if n := testing.AllocsPerRun(200, round); n > 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}
