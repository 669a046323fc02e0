package rdmap_test

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"github.com/stag-rdma/stag/rdmap"
	"github.com/stag-rdma/stag/rdmap/rdmaptest"
	"github.com/stag-rdma/stag/rdmap/region"
	"github.com/stag-rdma/stag/rdmap/verbs"
)

// fetcher makes a Read when a message says "read", and then stays in the upcall of its completion until it is released. It
// echoes all other messages.
type fetcher struct {
	handOff bool
	wr      verbs.WR
	c       *rdmap.Conn
	got     chan string // "upcall", or how else the Read was completed
	release chan struct{}
}

func (h *fetcher) HandleRecv(c *rdmap.Conn, m *verbs.Message) {
	c.PostRecv(1)
	if string(m.Data) == "read" {
		_ = c.Post([]verbs.WR{h.wr}) // the test notices if it fails
		return
	}
	_ = c.Post([]verbs.WR{{Op: verbs.OpSend, Head: m.Data}})
}

func (h *fetcher) HandleClose(*rdmap.Conn, error) {}

func (h *fetcher) Complete(err error) { h.got <- fmt.Sprint(err) }

func (h *fetcher) CompleteUpcall() {
	h.got <- "upcall"
	if h.handOff {
		h.c.HandOff()
	}
	<-h.release
	_ = h.c.Post([]verbs.WR{{Op: verbs.OpSend, Head: []byte("done")}})
}

// TestCompleteUpcall: the upcall that completes a Read may block like any other, whether the Response was staged or read
// into its place.
func TestCompleteUpcall(t *testing.T) {
	for _, size := range []int{100, 1 << 20} {
		for _, handOff := range []bool{true, false} {
			t.Run(fmt.Sprint(size, handOff), func(t *testing.T) {
				t.Parallel()
				a, b := TcpPair(t)
				h := &fetcher{handOff: handOff, got: make(chan string, 1), release: make(chan struct{})}
				cfg := &rdmap.Config{Handler: h}
				if !handOff {
					cfg.Reading.HandlerLimit = 10 * time.Millisecond
				}
				x, y := rdmaptest.Connect(t, a, b, nil, cfg)
				h.c = y
				src, dst := rdmaptest.Pattern(size), make([]byte, size)
				from, err := x.Register(src, region.RemoteRead)
				if err != nil {
					t.Fatal(err)
				}
				to, err := y.Register(dst, region.ReadSink)
				if err != nil {
					t.Fatal(err)
				}
				h.wr = verbs.WR{Op: verbs.OpReadRequest, STag: from.STag(), Sink: to.STag(), Len: uint32(size), Done: h}
				go y.Serve()
				for range 3 {
					readInUpcall(t, x, h)
				}
				if !bytes.Equal(src, dst) {
					t.Error("the octets differ")
				}
				if err := to.Invalidate(t.Context()); err != nil {
					t.Errorf("the sink is still in use: %v", err)
				}
				if n := y.Stats().Takeovers; n < 3 || handOff && n != 3 {
					t.Errorf("%d takeovers", n)
				}
			})
		}
	}
}

// readInUpcall makes one Read, and sends a message while its upcall blocks.
func readInUpcall(t *testing.T, x *rdmap.Conn, h *fetcher) {
	t.Helper()
	send := func(s string) {
		if err := x.Send(t.Context(), []byte(s)); err != nil {
			t.Fatal(err)
		}
	}
	want := func(s string) {
		if m, err := x.Recv(t.Context()); err != nil || string(m.Data) != s {
			t.Fatalf("got %q, %v, want %q", m.Data, err, s)
		}
	}
	send("read")
	select {
	case s := <-h.got:
		if s != "upcall" {
			t.Fatalf("completed with %s", s)
		}
	case <-x.Done():
		t.Fatal(x.Err())
	}
	send("behind")
	want("behind")
	h.release <- struct{}{}
	want("done")
}
