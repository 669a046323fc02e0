package rdmap

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stag-rdma/stag/rdmap/internal/buf"
	"github.com/stag-rdma/stag/rdmap/internal/drive"
	"github.com/stag-rdma/stag/rdmap/internal/engine"
	"github.com/stag-rdma/stag/rdmap/internal/enginetest"
	"github.com/stag-rdma/stag/rdmap/region"
	"github.com/stag-rdma/stag/rdmap/verbs"
)

// fetcher makes a Read when a message says "read", and then stays in the upcall of its completion until it is released. It
// echoes all other messages.
type fetcher struct {
	handOff bool
	wr      verbs.WR
	got     chan string // "upcall", or how else the Read was completed
	release chan struct{}
}

func (h *fetcher) HandleRecv(c *Conn, m *verbs.Message) {
	c.PostRecv(1)
	if string(m.Data) == "read" {
		_ = c.Post([]verbs.WR{h.wr}) // the test notices if it fails
		return
	}
	_ = c.Post([]verbs.WR{{Op: verbs.OpSend, Head: m.Data}})
}

func (h *fetcher) HandleClose(*Conn, error) {}
func (h *fetcher) Complete(err error)       { h.got <- fmt.Sprint(err) }

func (h *fetcher) CompleteUpcall(c *Conn) {
	h.got <- "upcall"
	if h.handOff {
		c.HandOff()
	}
	<-h.release
	_ = c.Post([]verbs.WR{{Op: verbs.OpSend, Head: []byte("done")}})
}

// TestCompleteUpcall: the upcall that completes a Read may block like any other, whether the Response was staged or read
// into its place.
func TestCompleteUpcall(t *testing.T) {
	for _, size := range []int{100, 1 << 20} {
		for _, handOff := range []bool{true, false} {
			t.Run(fmt.Sprint(size, handOff), func(t *testing.T) {
				t.Parallel()
				a, b := tcpPair(t)
				h := &fetcher{handOff: handOff, got: make(chan string, 1), release: make(chan struct{})}
				cfg := &Config{Handler: h}
				if !handOff {
					cfg.HandlerLimit = 10 * time.Millisecond
				}
				x, y := connect(t, a, b, nil, cfg)
				src, dst := enginetest.Pattern(size), make([]byte, size)
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
func readInUpcall(t *testing.T, x *Conn, h *fetcher) {
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

// noting records how it is completed.
type noting struct {
	name string
	log  *[]string
}

func (n noting) Complete(err error) { *n.log = append(*n.log, fmt.Sprint(n.name, " ", err)) }

type notingUp struct{ noting }

func (n notingUp) CompleteUpcall(c *Conn) {
	n.Complete(nil)
	(*n.log)[len(*n.log)-1] = fmt.Sprint(n.name, " up ", c.upcalls.Load()&1)
}

// TestReadDone: work requests complete in order, the last one by an upcall if it is an UpcallCompleter, has succeeded and
// the connection is in Serve.
func TestReadDone(t *testing.T) {
	for _, r := range []struct {
		due, want string
		serving   bool
	}{
		{"U", "U up 1", true},
		{"U", "U <nil>", false},
		{"p", "p <nil>", true},
		{"pU", "p <nil>,U up 1", true},
		{"Up", "U <nil>,p <nil>", true},
		{"UV", "U <nil>,V up 1", true},
		{"U!", "U broken", true},
		{"UV!", "U <nil>,V broken", true},
	} {
		a, _ := tcpPair(t)
		c := newConn(a, nil, false)
		if r.serving {
			c.reader.Take(drive.Server)
		}
		var log []string
		for _, k := range r.due {
			n := noting{string(k), &log}
			switch k {
			case '!':
				c.rcv.Due[len(c.rcv.Due)-1].Err = errors.New("broken")
			case 'p':
				c.rcv.Due = append(c.rcv.Due, engine.Completion{Done: n})
			default:
				c.rcv.Due = append(c.rcv.Due, engine.Completion{Done: notingUp{n}})
			}
		}
		if err := c.readDone(new(buf.Staging)); err != nil || len(c.rcv.Due) != 0 || c.upcalls.Load()&1 != 0 {
			t.Errorf("%s: %v, %d left, %d", r.due, err, len(c.rcv.Due), c.upcalls.Load())
		}
		if want := strings.Split(r.want, ","); !slices.Equal(log, want) {
			t.Errorf("%s: %q, want %q", r.due, log, want)
		}
	}
}
