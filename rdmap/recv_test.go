package rdmap_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/stag-rdma/stag/internal/rdmaptest"
	"github.com/stag-rdma/stag/rdmap"
	"github.com/stag-rdma/stag/rdmap/internal/conntest"
	"github.com/stag-rdma/stag/rdmap/verbs"
)

// TestWaitSolicitedWaiters: an event wakes everybody who waits for one, and a message wakes one of those who wait for
// messages. Those who have given up do not disturb the others.
func TestWaitSolicitedWaiters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := rdmaptest.Pipe()
		x, y := conntest.Connect(t, a, b, nil, nil)
		over, cancel := context.WithCancel(t.Context())
		errs := make(chan error, 5)
		for _, ctx := range []context.Context{over, t.Context(), t.Context()} {
			go func() { errs <- y.WaitSolicited(ctx) }()
		}
		synctest.Wait()
		cancel()
		if err := <-errs; !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		recv := make(chan *verbs.Message, 1)
		go func() { m, _ := y.Recv(t.Context()); recv <- m }()
		synctest.Wait()
		if err := x.Send(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
		<-recv
		synctest.Wait()
		if len(errs) != 0 {
			t.Fatal("woken by a plain Send")
		}
		if err := x.Post([]verbs.WR{{Op: verbs.OpSendSE}}); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if err := <-errs; err != nil {
				t.Fatal(err)
			}
		}
		if m := y.TryRecv(); m == nil || !m.Solicited || y.Alerts() != 0 {
			t.Error(m, y.Alerts())
		}
	})
	a, b := rdmaptest.Pipe()
	_, y := conntest.Connect(t, a, b, nil, &rdmap.Config{Handler: &conntest.Counter{}})
	if err := y.WaitSolicited(t.Context()); !errors.Is(err, verbs.ErrHasHandler) {
		t.Error(err)
	}
}
