package rdmap_test

import (
	"errors"
	"sync/atomic"
	"testing"

	"github.com/stag-rdma/stag/rdmap"
	"github.com/stag-rdma/stag/rdmap/rdmaptest"
	"github.com/stag-rdma/stag/rdmap/verbs"
)

// brittle is a Handler that panics on a message of one octet.
type brittle struct {
	got    chan struct{}
	closed atomic.Int32
}

func (h *brittle) HandleRecv(_ *rdmap.Conn, m *verbs.Message) {
	if len(m.Data) == 1 {
		panic("the vase is broken")
	}
	h.got <- struct{}{}
}
func (h *brittle) HandleClose(*rdmap.Conn, error) { h.closed.Add(1) }

// TestPanicEndsItsConnection: a panic on what a peer has sent ends its connection, with what it held, and no other.
func TestPanicEndsItsConnection(t *testing.T) {
	h := &brittle{got: make(chan struct{}, 1)}
	var xs, ys []*rdmap.Conn
	for range 2 {
		a, b := rdmaptest.Pipe()
		x, y := rdmaptest.Connect(t, a, b, &rdmap.Config{}, &rdmap.Config{Handler: h, Receives: rdmap.Receives{Count: 10}})
		go y.Serve() //nolint:errcheck // Done and Err tell
		xs, ys = append(xs, x), append(ys, y)
	}
	noErr(t, xs[0].Send(t.Context(), []byte{1}))
	<-ys[0].Done()
	if err := ys[0].Err(); !errors.Is(err, verbs.ErrPanic) || ys[0].Table().Live() != 0 {
		t.Errorf("ended with %v, %d registrations", err, ys[0].Table().Live())
	}
	noErr(t, xs[1].Send(t.Context(), []byte{1, 2}))
	select {
	case <-h.got:
	case <-ys[1].Done():
	}
	if ys[1].Err() != nil || h.closed.Load() != 1 {
		t.Errorf("the other: %v; %d connections closed", ys[1].Err(), h.closed.Load())
	}
}
