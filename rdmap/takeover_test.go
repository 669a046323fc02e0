package rdmap_test

import (
	"net"
	"testing"
	"time"

	"github.com/stag-rdma/stag/rdmap"
	"github.com/stag-rdma/stag/rdmap/rdmaptest"
	"github.com/stag-rdma/stag/rdmap/verbs"
)

// TestTakeover: an upcall that blocks does not stop later messages, whether it calls HandOff or the watchdog notices it,
// and its own message stays lent.
func TestTakeover(t *testing.T) {
	for _, handOff := range []bool{true, false} {
		OnWires(t, func(t *testing.T, a, b net.Conn) {
			h := &Blocker{HandOff: handOff, Release: make(chan struct{})}
			cfg := &rdmap.Config{Handler: h, Reading: rdmap.Reading{HandlerLimit: 10 * time.Millisecond}}
			if handOff {
				cfg.Reading.HandlerLimit = 0
			}
			x, y := rdmaptest.Connect(t, a, b, nil, cfg)
			go y.Serve()
			ctx := t.Context()
			for _, s := range []string{"b one", "2", "b three", "4"} {
				noErr(t, x.Post([]verbs.WR{{Op: verbs.OpSend, Head: []byte(s)}}))
			}
			for _, want := range []string{"2", "4"} {
				m, err := x.Recv(ctx)
				if err != nil || string(m.Data) != want {
					t.Fatalf("got %q, %v, want %q", m.Data, err, want)
				}
			}
			close(h.Release)
			got := map[string]bool{}
			for range 2 {
				m := must(x.Recv(ctx))(t)
				got[string(m.Data)] = true
			}
			if !got["b one"] || !got["b three"] || h.Damaged.Load() {
				t.Fatalf("got %v, damaged %v", got, h.Damaged.Load())
			}
			// The watchdog may take over more: an upcall that does not block may have lost its processor for that long.
			if n := y.Stats().Takeovers; n < 2 || n > 4 || handOff && n != 2 {
				t.Fatalf("%d takeovers", n)
			}
			if handOff && h.Handed.Load() != 2 {
				t.Fatalf("%d hand-offs", h.Handed.Load())
			}
		})
	}
}

// TestTakeoverLimit: beyond MaxTakeovers the role stays.
func TestTakeoverLimit(t *testing.T) {
	a, b := TcpPair(t)
	h := &Blocker{HandOff: true, Release: make(chan struct{})}
	x, y := rdmaptest.Connect(t, a, b, nil, &rdmap.Config{Handler: h, Reading: rdmap.Reading{MaxHandlers: 1}})
	go y.Serve()
	for range 3 {
		noErr(t, x.Post([]verbs.WR{{Op: verbs.OpSend, Head: []byte("b")}}))
	}
	for y.Stats().Takeovers == 0 {
		time.Sleep(time.Millisecond)
	}
	time.Sleep(20 * time.Millisecond) // for what must not happen
	if n := y.Stats().Takeovers; n != 1 {
		t.Fatalf("%d takeovers", n)
	}
	close(h.Release)
	for range 3 {
		if _, err := x.Recv(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}
