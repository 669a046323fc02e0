package rdmap

import (
	"encoding/binary"
	"errors"
	"sync"
	"testing"

	"github.com/stag-rdma/stag/rdmap/internal/enginetest"
	"github.com/stag-rdma/stag/rdmap/rdmaptest"
	"github.com/stag-rdma/stag/rdmap/verbs"
)

// TestRecvQueueRace: many connections use one queue at once. Exactly as many messages arrive as receives were
// posted; a message beyond that ends its own connection.
func TestRecvQueueRace(t *testing.T) {
	const conns, posted, each = 8, 100, 20
	q := NewRecvQueue(posted)
	h := &counter{}
	var wg sync.WaitGroup
	refused := make(chan error, conns)
	for range conns {
		a, b := rdmaptest.Pipe()
		x, y := connect(t, a, b, nil, &Config{RecvQueue: q, Handler: h})
		wg.Go(func() { refused <- y.Serve() })
		wg.Go(func() {
			for i := range each {
				if x.Post([]verbs.WR{{Op: verbs.OpSend, Head: binary.BigEndian.AppendUint32(nil, uint32(i))}}) != nil {
					return
				}
			}
			_ = x.Close()
		})
	}
	wg.Wait()
	if n := h.n(); n != posted || q.Posted() != 0 {
		t.Errorf("%d messages into %d receives, %d left", n, posted, q.Posted())
	}
	full := 0
	for range conns {
		if pe, ok := errors.AsType[*verbs.ProtocolError](<-refused); ok && pe.Code == enginetest.NoBuffer {
			full++
		}
	}
	if full == 0 {
		t.Error("no connection ended for want of receives")
	}
}

// counter counts messages and posts nothing.
type counter struct {
	mu  sync.Mutex
	got int
}

func (h *counter) HandleRecv(*Conn, *verbs.Message) { h.mu.Lock(); h.got++; h.mu.Unlock() }
func (h *counter) HandleClose(*Conn, error)         {}
func (h *counter) n() int                           { h.mu.Lock(); defer h.mu.Unlock(); return h.got }

// TestRecvQueueOfClosed: messages that nobody has taken when their connection ends give back their receives, and
// do so only once.
func TestRecvQueueOfClosed(t *testing.T) {
	q := NewRecvQueue(5)
	a, b := rdmaptest.Pipe()
	x, y := connect(t, a, b, nil, &Config{RecvQueue: q})
	for range 3 {
		if err := x.Send(t.Context(), []byte("m")); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := y.Recv(t.Context()); err != nil {
		t.Fatal(err)
	}
	_ = x.Close()
	<-y.Done()
	if q.Posted() != 5 {
		t.Errorf("%d receives, want 5", q.Posted())
	}
	for range 2 {
		if m := y.TryRecv(); m == nil || string(m.Data) != "m" {
			t.Fatal("message lost at the end")
		}
	}
	if y.TryRecv() != nil || q.Posted() != 5 {
		t.Errorf("%d receives, want 5", q.Posted())
	}
}

// TestLimitEvent: the event occurs once, at once if the limit is reached already, and again after Arm.
func TestLimitEvent(t *testing.T) {
	q := NewRecvQueue(3)
	n := 0
	count := func() { n++ }
	q.Arm(3, count)
	for i, want := range []int{1, 1, 1} {
		if !q.q.Take() || n != want {
			t.Errorf("receive %d: %d events", i, n)
		}
	}
	if q.q.Take() {
		t.Error("took a receive although there is none")
	}
	q.Arm(1, count)
	if n != 2 {
		t.Errorf("armed below the limit: %d events", n)
	}
	q.Arm(1, func() { q.Post(10); q.Arm(10, count) })
	if n != 2 || q.Posted() != 10 {
		t.Errorf("posted in the event: %d events, %d receives", n, q.Posted())
	}
	q.Arm(0, count)
	q.q.Take()
	if n != 2 {
		t.Error("the event occurred although it was disarmed")
	}
}
