package rdmap

import (
	"bytes"
	"context"
	"encoding/binary"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stag-rdma/stag/rdmap/internal/enginetest"
	"github.com/stag-rdma/stag/rdmap/rdmaptest"
	"github.com/stag-rdma/stag/rdmap/verbs"
)

// calls is a small RPC protocol: every Send carries a number, and the answer carries it too. The reading role is designed
// for such a use. It counts what goes wrong.
type calls struct {
	mu      sync.Mutex
	pending map[uint64]*Waiter
	strays  int // answers nobody waits for: those of cancelled calls
	closed  atomic.Bool
}

func (h *calls) HandleRecv(c *Conn, m *verbs.Message) {
	c.PostRecv(1)
	id := binary.BigEndian.Uint64(m.Data)
	h.mu.Lock()
	w := h.pending[id]
	delete(h.pending, id)
	if w == nil {
		h.strays++
	}
	h.mu.Unlock()
	if w != nil {
		w.Complete(nil)
	}
}

func (h *calls) HandleClose(_ *Conn, err error) {
	h.closed.Store(true)
	h.mu.Lock()
	defer h.mu.Unlock()
	for id, w := range h.pending {
		w.Complete(err)
		delete(h.pending, id)
	}
}

func (h *calls) call(ctx context.Context, c *Conn, id uint64, size int) error {
	w := new(Waiter)
	w.Reset()
	h.mu.Lock()
	h.pending[id] = w
	h.mu.Unlock()
	msg := make([]byte, max(size, 8))
	binary.BigEndian.PutUint64(msg, id)
	err := c.Post([]verbs.WR{{Op: verbs.OpSend, Head: msg}})
	if err == nil {
		err = c.Wait(ctx, w)
	}
	h.mu.Lock()
	delete(h.pending, id)
	h.mu.Unlock()
	return err
}

// shuffler answers out of order, and now and then from another goroutine.
type shuffler struct {
	wg   sync.WaitGroup
	late [][]byte
	n    int
}

func (h *shuffler) HandleRecv(c *Conn, m *verbs.Message) {
	c.PostRecv(1)
	h.n++
	switch {
	case h.n%7 == 0:
		msg := bytes.Clone(m.Data)
		h.wg.Go(func() { _ = c.Post([]verbs.WR{{Op: verbs.OpSend, Head: msg}}) })
	case h.n%3 == 0:
		h.late = append(h.late, bytes.Clone(m.Data))
	default:
		_ = c.Post([]verbs.WR{{Op: verbs.OpSend, Head: m.Data}})
	}
}

// HandleIdle sends the delayed answers, the last one first.
func (h *shuffler) HandleIdle(c *Conn) {
	for len(h.late) > 0 {
		_ = c.Post([]verbs.WR{{Op: verbs.OpSend, Body: h.late[len(h.late)-1]}})
		h.late = h.late[:len(h.late)-1]
	}
}

func (h *shuffler) HandleClose(*Conn, error) {}

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
			a, b := tcpPair(t)
			return a, fragmented(b, 50, 40, 3)
		},
		"tcp whole": func() (net.Conn, net.Conn) { return tcpPair(t) },
	}
	for name, wire := range wires {
		t.Run(name, func(t *testing.T) { stress(t, wire, 6, 120, option{}) })
	}
}

func stress(t *testing.T, wire func() (net.Conn, net.Conn), callers, each int, o option) {
	a, b := wire()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	h := &calls{pending: make(map[uint64]*Waiter)}
	s := new(shuffler)
	cx, cy := &Config{Handler: h, Recvs: 1000}, &Config{Handler: s, Recvs: 1000}
	o.set(cx, cy)
	x, y := connect(t, a, b, cx, cy)
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
				err := h.call(ctx, x, uint64(g*each+i), rng.IntN(200))
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
	if err := h.call(t.Context(), x, 1<<40, 0); err != nil {
		t.Fatal(err)
	}
	s.wg.Wait()
	t.Logf("%d done, %d cancelled", done.Load(), cancelled.Load())
}

// TestCloseUnderLoad: to close, abort or lose the connection at any time ends every call and leaves nothing behind.
// ADVERSARY 8 and 9.
func TestCloseUnderLoad(t *testing.T) {
	ends := []struct {
		name string
		end  func(x, y *Conn, a, b net.Conn)
	}{
		{"close", func(x, _ *Conn, _, _ net.Conn) { x.Close() }},
		{"peer closes", func(_, y *Conn, _, _ net.Conn) { y.Close() }},
		{"abort", func(x, _ *Conn, _, _ net.Conn) { x.Abort(enginetest.ErrTest) }},
		{"terminate", func(_, y *Conn, _, _ net.Conn) { y.Terminate(verbs.TermCode{}, nil) }},
		{"wire cut", func(_, _ *Conn, a, _ net.Conn) { a.Close() }},
	}
	for _, e := range ends {
		t.Run(e.name, func(t *testing.T) {
			onWires(t, func(t *testing.T, a, b net.Conn) {
				h := &calls{pending: make(map[uint64]*Waiter)}
				x, y := connect(t, a, b, &Config{Handler: h, Recvs: 100}, &Config{Handler: new(shuffler), Recvs: 100})
				go y.Serve()
				reg := mustRegister(t, x, 100, enginetest.AllRights)
				var wg sync.WaitGroup
				for g := range 4 {
					wg.Go(func() {
						for i := uint64(g) << 32; ; i++ {
							if h.call(t.Context(), x, i, 100) != nil {
								return
							}
						}
					})
				}
				time.Sleep(3 * time.Millisecond)
				e.end(x, y, a, b)
				wg.Wait()
				<-x.Done()
				if x.Table().Live() != 0 || reg.Valid() {
					t.Error("a region outlived the connection")
				}
				if !h.closed.Load() {
					t.Error("HandleClose was not called")
				}
				x.mu.Lock()
				defer x.mu.Unlock()
				if x.snd.Copied != 0 {
					t.Errorf("%d octets of staging left", x.snd.Copied)
				}
			})
		})
	}
}
