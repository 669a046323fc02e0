package rdmap_test

import (
	"context"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stag-rdma/stag/rdmap"
	"github.com/stag-rdma/stag/rdmap/internal/conntest"
	"github.com/stag-rdma/stag/rdmap/rdmaptest"
)

// fragmented returns c with reads in pieces of at most in octets, and writes in pieces of at most out.
func fragmented(c net.Conn, in, out int, seed uint64) net.Conn {
	return rdmaptest.Wrap(c, rdmaptest.Faults{
		In: rdmaptest.Fault{MaxPiece: in}, Out: rdmaptest.Fault{MaxPiece: out}, Seed: seed,
	})
}

// TestStress: random calls and cancellations on fragmented streams, with both reading schemes. Every call ends, with its
// own answer (ADVERSARY 8).
func TestStress(t *testing.T) {
	wires := map[string]func() (net.Conn, net.Conn){
		"pipe": func() (net.Conn, net.Conn) {
			a, b := rdmaptest.PipeSize(3000)
			return fragmented(a, 50, 40, 1),
				fragmented(b, 50, 40, 2)
		},
		"tcp": func() (net.Conn, net.Conn) {
			a, b := conntest.TcpPair(t)
			return a, fragmented(b, 50, 40, 3)
		},
		"tcp whole": func() (net.Conn, net.Conn) { return conntest.TcpPair(t) },
	}
	for name, wire := range wires {
		t.Run(name, func(t *testing.T) { stress(t, wire, 6, 120, option{}) })
	}
}

func stress(t *testing.T, wire func() (net.Conn, net.Conn), callers, each int, o option) {
	a, b := wire()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	h := &conntest.Calls{Pending: make(map[uint64]*rdmap.Waiter)}
	s := new(conntest.Shuffler)
	cx, cy := &rdmap.Config{Handler: h, Receives: rdmap.Receives{Count: 1000}}, &rdmap.Config{Handler: s, Receives: rdmap.Receives{Count: 1000}}
	o.set(cx, cy)
	x, y := conntest.Connect(t, a, b, cx, cy)
	go y.Serve()
	var wg sync.WaitGroup
	var done, cancelled atomic.Int64
	for g := range callers {
		rng := rand.New(rand.NewPCG(seed, uint64(g)))
		wg.Go(func() {
			for i := range each {
				ctx, cancel := t.Context(), context.CancelFunc(func() {})
				if rng.IntN(4) == 0 {
					ctx, cancel = context.WithTimeout(ctx, time.Duration(rng.IntN(300))*time.Microsecond)
				}
				err := h.Call(ctx, x, uint64(g*each+i), rng.IntN(200))
				switch {
				case err == nil:
					done.Add(1)
				case ctx.Err() != nil:
					cancelled.Add(1)
				default:
					t.Errorf("call failed: %v", err)
				}
				cancel()
				if rng.IntN(50) == 0 {
					time.Sleep(time.Duration(rng.IntN(60)) * time.Millisecond) // goes cold
				}
			}
		})
	}
	wg.Wait()
	if n := done.Load() + cancelled.Load(); n != int64(callers*each) {
		t.Fatalf("%d of %d calls ended", n, callers*each)
	}
	// Every request is answered, even if nobody waits for it: the watcher reads.
	if err := h.Call(t.Context(), x, 1<<40, 0); err != nil {
		t.Fatal(err)
	}
	s.Wg.Wait()
	t.Logf("%d done, %d cancelled", done.Load(), cancelled.Load())
}
