package rdmap

import (
	"bytes"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stag-rdma/stag/rdmap/internal/enginetest"
	"github.com/stag-rdma/stag/rdmap/verbs"
)

// blocker echoes messages. It blocks on those that begin with 'b' until it is released, after HandOff if the test asks for
// that.
type blocker struct {
	handOff bool
	release chan struct{}
	handed  atomic.Int32
	damaged atomic.Bool
}

func (h *blocker) HandleRecv(c *Conn, m *verbs.Message) {
	c.PostRecv(1)
	before := bytes.Clone(m.Data)
	if len(m.Data) > 0 && m.Data[0] == 'b' {
		if h.handOff && c.HandOff() {
			h.handed.Add(1)
		}
		<-h.release
	}
	if !bytes.Equal(before, m.Data) {
		h.damaged.Store(true) // the loan ended too early
	}
	_ = c.Post([]verbs.WR{{Op: verbs.OpSend, Head: m.Data}})
}

func (h *blocker) HandleClose(*Conn, error) {}

// TestTakeover: an upcall that blocks does not stop later messages, whether it calls HandOff or the watchdog notices it,
// and its own message stays lent.
func TestTakeover(t *testing.T) {
	for _, handOff := range []bool{true, false} {
		onWires(t, func(t *testing.T, a, b net.Conn) {
			h := &blocker{handOff: handOff, release: make(chan struct{})}
			cfg := &Config{Handler: h, HandlerLimit: 10 * time.Millisecond}
			if handOff {
				cfg.HandlerLimit = 0
			}
			x, y := connect(t, a, b, nil, cfg)
			go y.Serve()
			ctx := t.Context()
			for _, s := range []string{"b one", "2", "b three", "4"} {
				if err := x.Post([]verbs.WR{{Op: verbs.OpSend, Head: []byte(s)}}); err != nil {
					t.Fatal(err)
				}
			}
			for _, want := range []string{"2", "4"} {
				m, err := x.Recv(ctx)
				if err != nil || string(m.Data) != want {
					t.Fatalf("got %q, %v, want %q", m.Data, err, want)
				}
			}
			close(h.release)
			got := map[string]bool{}
			for range 2 {
				m, err := x.Recv(ctx)
				if err != nil {
					t.Fatal(err)
				}
				got[string(m.Data)] = true
			}
			if !got["b one"] || !got["b three"] || h.damaged.Load() {
				t.Fatalf("got %v, damaged %v", got, h.damaged.Load())
			}
			// The watchdog may take over more: an upcall that does not block may have lost its processor for that long.
			if n := y.Stats().Takeovers; n < 2 || n > 4 || handOff && n != 2 {
				t.Fatalf("%d takeovers", n)
			}
			if handOff && h.handed.Load() != 2 {
				t.Fatalf("%d hand-offs", h.handed.Load())
			}
		})
	}
}

// TestTakeoverLimit: beyond MaxTakeovers the role stays.
func TestTakeoverLimit(t *testing.T) {
	a, b := tcpPair(t)
	h := &blocker{handOff: true, release: make(chan struct{})}
	x, y := connect(t, a, b, nil, &Config{Handler: h, MaxTakeovers: 1})
	go y.Serve()
	for range 3 {
		if err := x.Post([]verbs.WR{{Op: verbs.OpSend, Head: []byte("b")}}); err != nil {
			t.Fatal(err)
		}
	}
	for y.Stats().Takeovers == 0 {
		time.Sleep(time.Millisecond)
	}
	time.Sleep(20 * time.Millisecond) // for what must not happen
	if n := y.Stats().Takeovers; n != 1 {
		t.Fatalf("%d takeovers", n)
	}
	close(h.release)
	for range 3 {
		if _, err := x.Recv(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

// TestEndWithUpcallRunning: the end of the connection does not wait for an upcall that blocks.
func TestEndWithUpcallRunning(t *testing.T) {
	onWires(t, func(t *testing.T, a, b net.Conn) {
		h := &blocker{release: make(chan struct{})}
		x, y := connect(t, a, b, nil, &Config{Handler: h})
		go y.Serve()
		if err := x.Send(t.Context(), []byte("b")); err != nil {
			t.Fatal(err)
		}
		for y.upcalls.Load()&1 == 0 {
			time.Sleep(time.Millisecond)
		}
		y.Abort(enginetest.ErrTest)
		within(t, "the end", y.Done())
		close(h.release)
		for y.takeovers.Load() != 0 {
			time.Sleep(time.Millisecond)
		}
	})
}
