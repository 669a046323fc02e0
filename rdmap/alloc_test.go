package rdmap_test

import (
	"testing"

	"github.com/stag-rdma/stag/rdmap"
	"github.com/stag-rdma/stag/rdmap/rdmaptest"
	"github.com/stag-rdma/stag/rdmap/region"
	"github.com/stag-rdma/stag/rdmap/verbs"
)

// TestConnAllocs is the same for a round trip over TCP: Post, flush, Serve, upcall,
// Wait.
func TestConnAllocs(t *testing.T) {
	if rdmaptest.Poisoning {
		t.Skip("the race detector allocates")
	}
	for _, markers := range []bool{false, true} {
		connAllocs(t, markers)
	}
}

func connAllocs(t *testing.T, markers bool) {
	p, q := TcpPair(t)
	h := new(Caller)
	x, y := rdmaptest.Connect(t, p, q, &rdmap.Config{Handler: h, Startup: rdmap.Startup{Markers: markers}}, &rdmap.Config{Handler: Echoer{}, Startup: rdmap.Startup{Markers: markers}})
	go y.Serve()
	wrs := []verbs.WR{{Op: verbs.OpSend, Head: make([]byte, 100)}}
	round := func() {
		h.W.Reset()
		noErr(t, x.Post(wrs))
		noErr(t, x.Wait(t.Context(), &h.W))
	}
	roundBackground := func() {
		h.W.Reset()
		noErr(t, x.Post(wrs))
		noErr(t, x.Wait(Background, &h.W))
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
	if rdmaptest.Poisoning {
		t.Skip("the race detector needs memory of its own")
	}
	for _, markers := range []bool{false, true} {
		IdleMemory(t, markers)
	}
}

// refill posts a receive for each message.
type refill struct{}

func (refill) HandleRecv(c *rdmap.Conn, _ *verbs.Message) { c.PostRecv(1) }

func (refill) HandleClose(*rdmap.Conn, error) {}

// TestRequestAllocs: no allocation per atomic, Flush, Verify, Atomic Write and
// Immediate over TCP, at both ends together.
func TestRequestAllocs(t *testing.T) {
	if rdmaptest.Poisoning {
		t.Skip("the race detector allocates")
	}
	p, q := TcpPair(t)
	x, y := rdmaptest.Connect(t, p, q, &rdmap.Config{Startup: rdmap.Startup{Extensions: verbs.Ext7306 | verbs.ExtSwap | verbs.ExtCommit}}, &rdmap.Config{Startup: rdmap.Startup{Extensions: verbs.Ext7306 | verbs.ExtSwap | verbs.ExtCommit}, Handler: refill{}})
	mem := &rdmaptest.Persisting{Mem: make([]byte, 8192)}
	reg, _ := y.Table().RegisterMemory(mem, region.Options{Access: rdmaptest.CommitRights | region.Atomic})
	go y.Serve()
	s, sum, long := reg.STag(), rdmaptest.Castagnoli(make([]byte, 64)), rdmaptest.Castagnoli(make([]byte, 8000))
	for name, f := range map[string]func() error{
		"FetchAdd":       func() error { _, err := x.FetchAdd(Background, s, 8184, 1, 0); return err },
		"CmpSwap":        func() error { _, err := x.CmpSwap(Background, s, 8184, 1, 2, 3, 4); return err },
		"Swap":           func() error { _, err := x.Swap(Background, s, 8184, 1); return err },
		"flush G":        func() error { return x.Flush(Background, s, 0, 64, verbs.FlushVisible) },
		"flush P":        func() error { return x.Flush(Background, s, 0, 64, verbs.FlushPersistent) },
		"verify":         func() error { _, err := x.Verify(Background, s, 0, 64, sum); return err },
		"verify of much": func() error { _, err := x.Verify(Background, s, 0, 8000, long); return err },
		"atomic write":   func() error { return x.AtomicWrite(Background, s, 8176, [8]byte{1}) },
		"immediate":      func() error { return x.SendImmediate(Background, [8]byte{1}, true) },
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
