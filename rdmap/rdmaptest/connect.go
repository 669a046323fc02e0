package rdmaptest

import (
	"bytes"
	"context"
	"net"
	"sync"
	"testing"

	"github.com/stag-rdma/stag/rdmap"
	"github.com/stag-rdma/stag/rdmap/verbs"
)

// Connect runs the startup on two ends and closes both when the test is over.
func Connect(t testing.TB, a, b net.Conn, ca, cb *rdmap.Config) (*rdmap.Conn, *rdmap.Conn) {
	t.Helper()
	x, y := rdmap.Client(a, ca), rdmap.Server(b, cb)
	errs := make(chan error, 1)
	go func() { errs <- y.Handshake(context.Background()) }()
	if err := x.Handshake(context.Background()); err != nil {
		t.Fatalf("initiator: %v", err)
	}
	if err := <-errs; err != nil {
		t.Fatalf("responder: %v", err)
	}
	t.Cleanup(func() {
		go x.Close()
		y.Close()
		<-x.Done()
	})
	return x, y
}

// Collector keeps the messages of its upcalls.
type Collector struct {
	Mu     sync.Mutex
	Msgs   [][]byte
	Closed error
	Got    chan struct{} // one token per message
	Over   chan struct{}
}

// NewCollector returns a Collector that has room for 1024 tokens.
func NewCollector() *Collector {
	return &Collector{Got: make(chan struct{}, 1024), Over: make(chan struct{})}
}

// HandleRecv implements rdmap.Handler.
func (h *Collector) HandleRecv(c *rdmap.Conn, m *verbs.Message) {
	h.Mu.Lock()
	h.Msgs = append(h.Msgs, bytes.Clone(m.Data))
	h.Mu.Unlock()
	c.PostRecv(1)
	h.Got <- struct{}{}
}

// HandleClose implements rdmap.Handler.
func (h *Collector) HandleClose(_ *rdmap.Conn, err error) {
	h.Closed = err
	close(h.Over)
}
