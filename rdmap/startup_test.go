package rdmap_test

import (
	"errors"
	"runtime"
	"testing"
	"time"

	"github.com/stag-rdma/stag/rdmap"
	"github.com/stag-rdma/stag/rdmap/rdmaptest"
	"github.com/stag-rdma/stag/rdmap/verbs"
)

// TestRecvDuringHandshake: the initiator may be ready, and send, before the goroutine that runs the
// responder's Handshake has finished. A goroutine that receives there waits for that.
func TestRecvDuringHandshake(t *testing.T) {
	a, b := rdmaptest.Pipe()
	x, y := rdmap.Client(a, nil), rdmap.Server(b, nil)
	go y.Handshake(t.Context())
	got := make(chan error)
	go func() {
		_, err := y.Recv(t.Context())
		for ; errors.Is(err, verbs.ErrNoHandshake); _, err = y.Recv(t.Context()) {
			runtime.Gosched() // Handshake has not begun
		}
		got <- err
	}()
	select {
	case err := <-got:
		t.Fatal("Recv before there is a connection:", err)
	case <-time.After(time.Millisecond):
	}
	noErr(t, x.Handshake(t.Context()))
	noErr(t, x.Send(t.Context(), []byte("hello")))
	if err := <-got; err != nil {
		t.Error(err)
	}
	x.Close()
	y.Close()
}
