package rdmap

import (
	"context"
	"errors"
	"net"
	"testing"
	"testing/synctest"

	"github.com/stag-rdma/stag/rdmap/rdmaptest"
	"github.com/stag-rdma/stag/rdmap/verbs"
)

// TestWaitSolicited: messages without SE wake nobody who waits for an event. A message with SE does as long as it is not
// taken, and so does the end of the connection.
func TestWaitSolicited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := rdmaptest.Pipe()
		cfg := &Config{Extensions: verbs.Ext7306}
		x, y := connect(t, a, b, cfg, cfg)
		var woken []int // number of messages when WaitSolicited returned
		end := make(chan error)
		go func() {
			for {
				if err := y.WaitSolicited(t.Context()); err != nil {
					end <- err
					return
				}
				n := 0
				for y.TryRecv() != nil {
					n++
				}
				woken = append(woken, n)
			}
		}()
		for _, op := range []verbs.Opcode{
			verbs.OpSend, verbs.OpImmediate, verbs.OpSendSE, verbs.OpSend, verbs.OpSend, verbs.OpImmediateSE, verbs.OpSendSE, verbs.OpImmediate,
		} {
			if err := x.Post([]verbs.WR{{Op: op, Head: make([]byte, 8)}}); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		if len(woken) != 3 || woken[0] != 3 || woken[1] != 3 || woken[2] != 1 {
			t.Errorf("messages at each event: %v", woken)
		}
		_ = x.Close()
		if err := <-end; !errors.Is(err, net.ErrClosed) {
			t.Errorf("ended with %v", err)
		}
		if y.TryRecv() == nil || y.TryRecv() != nil {
			t.Error("want the last message")
		}
	})
}

// TestWaitSolicitedWaiters: an event wakes everybody who waits for one, and a message wakes one of those who wait for
// messages. Those who have given up do not disturb the others.
func TestWaitSolicitedWaiters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := rdmaptest.Pipe()
		x, y := connect(t, a, b, nil, nil)
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
		if m := y.TryRecv(); m == nil || !m.Solicited || len(y.inbox.alerts) != 0 {
			t.Error(m, len(y.inbox.alerts))
		}
	})
	a, b := rdmaptest.Pipe()
	_, y := connect(t, a, b, nil, &Config{Handler: &counter{}})
	if err := y.WaitSolicited(t.Context()); !errors.Is(err, verbs.ErrHasHandler) {
		t.Error(err)
	}
}
