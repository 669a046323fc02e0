package push_test

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stag-rdma/stag/transport/push"
)

// cutter relays connections to an address, and cuts them after a number of octets.
type cutter struct {
	to   func() string
	next func() int64 // octets of the next connection; 0: as many as there are

	mu    sync.Mutex
	conns map[net.Conn]struct{}
	made  int // connections so far
}

func (c *cutter) run(t *testing.T) string {
	t.Helper()
	l := must(net.Listen("tcp", "127.0.0.1:0"))(t)
	c.conns = make(map[net.Conn]struct{})
	var wg sync.WaitGroup
	t.Cleanup(func() { l.Close(); c.cut(); wg.Wait() })
	wg.Go(func() {
		for {
			a, err := l.Accept()
			if err != nil {
				return
			}
			b, err := net.Dial("tcp", c.to())
			if err != nil {
				a.Close()
				continue
			}
			c.mu.Lock()
			c.conns[a], c.conns[b] = struct{}{}, struct{}{}
			c.made++
			c.mu.Unlock()
			left := new(atomic.Int64)
			left.Store(c.next())
			forever := left.Load() == 0
			wg.Go(func() { relay(a, b, left, forever) })
			wg.Go(func() { relay(b, a, left, forever) })
		}
	})
	return l.Addr().String()
}

// relay copies until the octets of both directions are used up.
func relay(from, to net.Conn, left *atomic.Int64, forever bool) {
	defer from.Close()
	defer to.Close()
	buf := make([]byte, 4096)
	for {
		n, err := from.Read(buf)
		if !forever {
			after := left.Add(int64(-n))
			if after < 0 {
				n = max(0, n+int(after))
				err = io.EOF
			}
		}
		if _, werr := to.Write(buf[:n]); err != nil || werr != nil {
			return
		}
	}
}

// cut ends all connections.
func (c *cutter) cut() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for nc := range c.conns {
		nc.Close()
		delete(c.conns, nc)
	}
}

// count returns how many connections there were.
func (c *cutter) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.made
}

// history is what a test has sent and what was acknowledged.
type history struct {
	mu    sync.Mutex
	acked map[uint64]string
	sent  map[string]bool
}

// run appends records of several goroutines, until n each.
func (h *history) run(t *testing.T, s *push.Session, workers, n int, prefix string) {
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			for i := range n {
				record := fmt.Sprintf("%s%d-%d ", prefix, w, i)
				record += string(make([]byte, (i*131+w*17)%700))
				h.mu.Lock()
				h.sent[record] = true
				h.mu.Unlock()
				r, err := s.Append(t.Context(), []byte(record))
				if err != nil {
					return
				}
				h.mu.Lock()
				if old, twice := h.acked[r.Seq]; twice {
					t.Errorf("number %d for %q and %q", r.Seq, old, record)
				}
				h.acked[r.Seq] = record
				h.mu.Unlock()
			}
		})
	}
	wg.Wait()
}

// check reads the log: what was acknowledged is there, with its number, what is there was
// sent, and all of it once.
func (h *history) check(t *testing.T, l *push.Log) {
	t.Helper()
	seen := make(map[string]bool)
	for {
		r := must(l.TryNext())(t)
		if r == nil {
			break
		}
		p := string(r.Payload)
		if !h.sent[p] || seen[p] {
			t.Errorf("record %d %.20q: sent %v, there before %v", r.Seq, p, h.sent[p], seen[p])
		}
		seen[p] = true
		if want, ok := h.acked[r.Seq]; ok && want != p {
			t.Errorf("record %d is %.20q, acknowledged was %.20q", r.Seq, p, want)
		}
		delete(h.acked, r.Seq)
	}
	for seq, p := range h.acked {
		t.Errorf("record %d %.20q was acknowledged but is missing", seq, p)
	}
}

func newHistory() *history {
	return &history{acked: make(map[uint64]string), sent: make(map[string]bool)}
}

// Connections, those of calls and those of the log, are cut after a random number of
// octets, in the start-up, in the middle of a call, between a record and its tail: nothing
// is lost and nothing doubled, on both rungs.
func TestCut(t *testing.T) {
	t.Parallel()
	for _, best := range []push.Rung{push.Native, push.Append} {
		t.Run(best.String(), func(t *testing.T) {
			seed := rand.Uint64()
			t.Log("seed", seed)
			rnd := rand.New(rand.NewPCG(seed, 1))
			var mu sync.Mutex
			next := func() int64 {
				mu.Lock()
				defer mu.Unlock()
				if rnd.IntN(8) == 0 {
					return 1 + rnd.Int64N(300)
				}
				return 1500 + rnd.Int64N(5_000)
			}
			w := start(t, &push.Server{})
			commit := &cutter{to: func() string { return w.rawCommit }, next: next} // not recorded: a cut breaks a rule
			calls := &cutter{to: func() string { return w.rawRPC }, next: next}
			commitAddr, rpcAddr := commit.run(t), calls.run(t)
			rpc := redialer(t, func() string { return rpcAddr })
			s, err := push.Dial(t.Context(), rpc, "log", (&push.Config{
				Best: best, Secret: push.NewSecret(),
				Dial: func(ctx context.Context, _ string) (net.Conn, error) {
					var d net.Dialer
					return d.DialContext(ctx, "tcp", commitAddr)
				},
			}).Times(15*time.Second, 1, 1e6))
			if err != nil {
				t.Fatal(err)
			}
			h := newHistory()
			h.run(t, s, 3, 40, "")
			if len(h.acked) != 120 {
				t.Errorf("%d of 120 acknowledged: %v", len(h.acked), s.Err())
			}
			if n := commit.count() + calls.count(); n < 4 { // two would do without cuts
				t.Errorf("%d connections: nothing was cut", n)
			}
			rpc.Close() // CLOSE is not waited for
			_ = s.Close(context.Background())
			l := w.ps.Log("log")
			h.check(t, l)
		})
	}
}

// The server goes down under load and comes back with what is sure to have survived; the
// client continues by itself. What it has been told is there, once, and the numbers continue.
func TestServerRestart(t *testing.T) {
	t.Parallel()
	for _, best := range []push.Rung{push.Native, push.Append} {
		t.Run(best.String(), func(t *testing.T) {
			store := newMemStore()
			var mu sync.Mutex
			w := start(t, &push.Server{Store: store})
			calls := &cutter{next: func() int64 { return 0 }, to: func() string {
				mu.Lock()
				defer mu.Unlock()
				return w.rpc
			}}
			addr := calls.run(t)
			s, err := push.Dial(t.Context(), redialer(t, func() string { return addr }), "log", (&push.Config{
				Best: best, Secret: push.NewSecret(),
			}).Times(15*time.Second, 1e6, 1e7))
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close(context.Background())
			h := newHistory()
			var wg sync.WaitGroup
			wg.Go(func() { h.run(t, s, 2, 60, "") })
			for i := range 10 {
				record := fmt.Sprint("beside ", i)
				h.mu.Lock()
				h.sent[record] = true
				h.mu.Unlock()
				r := must(s.Append(t.Context(), []byte(record)))(t)
				h.mu.Lock()
				h.acked[r.Seq] = record
				h.mu.Unlock()
			}
			mu.Lock()
			w.stop()
			w = start(t, &push.Server{Store: store.crashed()})
			mu.Unlock()
			wg.Wait()
			if len(h.acked) != 130 {
				t.Errorf("%d acknowledged: %v", len(h.acked), s.Err())
			}
			l := w.ps.Log("log")
			h.check(t, l)
		})
	}
}
