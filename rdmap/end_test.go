package rdmap

import (
	"errors"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/stag-rdma/stag/rdmap/internal/enginetest"
	"github.com/stag-rdma/stag/rdmap/region"
	"github.com/stag-rdma/stag/rdmap/verbs"
)

// TestCloseUnderLoad: to close, abort or lose the connection at any time ends every call and leaves nothing behind.
// ADVERSARY 8 and 9.
func TestCloseUnderLoad(t *testing.T) {
	ends := []struct {
		name string
		end  func(x, y *Conn, a, b net.Conn)
	}{
		{"close", func(x, _ *Conn, _, _ net.Conn) { x.Close() }},
		{"peer closes", func(_, y *Conn, _, _ net.Conn) { y.Close() }},
		{"abort", func(x, _ *Conn, _, _ net.Conn) { x.Abort(enginetest.ErrTest) }},
		{"terminate", func(_, y *Conn, _, _ net.Conn) { y.Terminate(verbs.TermCode{}, nil) }},
		{"wire cut", func(_, _ *Conn, a, _ net.Conn) { a.Close() }},
	}
	for _, e := range ends {
		t.Run(e.name, func(t *testing.T) {
			OnWires(t, func(t *testing.T, a, b net.Conn) {
				h := &Calls{Pending: make(map[uint64]*Waiter)}
				x, y := Connect(t, a, b, &Config{Handler: h, Receives: Receives{Count: 100}}, &Config{Handler: new(Shuffler), Receives: Receives{Count: 100}})
				go y.Serve()
				reg := MustRegister(t, x, 100, enginetest.AllRights)
				var wg sync.WaitGroup
				for g := range 4 {
					wg.Go(func() {
						for i := uint64(g) << 32; ; i++ {
							if h.Call(t.Context(), x, i, 100) != nil {
								return
							}
						}
					})
				}
				time.Sleep(3 * time.Millisecond)
				e.end(x, y, a, b)
				wg.Wait()
				<-x.Done()
				if x.Table().Live() != 0 || reg.Valid() {
					t.Error("a region outlived the connection")
				}
				if !h.closed.Load() {
					t.Error("HandleClose was not called")
				}
				x.mu.Lock()
				defer x.mu.Unlock()
				if x.snd.Copied != 0 {
					t.Errorf("%d octets of staging left", x.snd.Copied)
				}
			})
		})
	}
}

// TestCancelledSink: a Read that was cancelled while it waited, and whose sink was then invalidated, has no effect.
func TestCancelledSink(t *testing.T) {
	OnWires(t, func(t *testing.T, a, b net.Conn) {
		x, p := RawResponder(t, a, b, &Config{Startup: Startup{ORD: 1}})
		first := MustRegister(t, x, 8, region.ReadSink)
		if err := x.Post([]verbs.WR{{Op: verbs.OpReadRequest, Sink: first.STag(), Len: 8}}); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := Cancellable(t)
		errs := make(chan error, 1)
		go func() { errs <- x.Read(ctx, make([]byte, 8), 1, 0) }()
		queued := func() bool {
			x.mu.Lock()
			defer x.mu.Unlock()
			return x.snd.Copied > 0
		}
		for !queued() {
			yield()
		}
		cancel()
		if err := <-errs; !errors.Is(err, ctx.Err()) {
			t.Fatal(err)
		}
		if _, err := p.Next(); err != nil {
			t.Fatal(err)
		}
		if err := p.Send(enginetest.ReadResponse(t, first.STag(), 0)[:14+8]); err != nil {
			t.Fatal(err)
		}
		if err := x.Send(t.Context(), []byte("alive")); err != nil {
			t.Fatal(err)
		}
		if u, err := p.Next(); err != nil || u[1] != 0x43 {
			t.Fatalf("%x, %v", u, err)
		}
	})
}
