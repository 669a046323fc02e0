package rdmap_test

import (
	"encoding/binary"
	"errors"
	"sync"
	"testing"

	"github.com/stag-rdma/stag/internal/rdmaptest"
	"github.com/stag-rdma/stag/rdmap"
	"github.com/stag-rdma/stag/rdmap/internal/conntest"
	"github.com/stag-rdma/stag/rdmap/internal/enginetest"
	"github.com/stag-rdma/stag/rdmap/verbs"
)

// TestRecvQueueRace: many connections use one queue at once. Exactly as many messages arrive as receives were
// posted; a message beyond that ends its own connection.
func TestRecvQueueRace(t *testing.T) {
	const conns, posted, each = 8, 100, 20
	q := rdmap.NewRecvQueue(posted)
	h := &conntest.Counter{}
	var wg sync.WaitGroup
	refused := make(chan error, conns)
	for range conns {
		a, b := rdmaptest.Pipe()
		x, y := conntest.Connect(t, a, b, nil, &rdmap.Config{Receives: rdmap.Receives{Queue: q}, Handler: h})
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
	if n := h.N(); n != posted || q.Posted() != 0 {
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

// TestRecvQueueOfClosed: messages that nobody has taken when their connection ends give back their receives, and
// do so only once.
func TestRecvQueueOfClosed(t *testing.T) {
	q := rdmap.NewRecvQueue(5)
	a, b := rdmaptest.Pipe()
	x, y := conntest.Connect(t, a, b, nil, &rdmap.Config{Receives: rdmap.Receives{Queue: q}})
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
