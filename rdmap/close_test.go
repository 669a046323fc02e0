package rdmap_test

import (
	"errors"
	"net"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/stag-rdma/stag/rdmap"
	"github.com/stag-rdma/stag/rdmap/rdmaptest"
	"github.com/stag-rdma/stag/rdmap/region"
	"github.com/stag-rdma/stag/rdmap/verbs"
)

// TestCloseUnderLoad: to close, abort or lose the connection at any time ends every call and leaves nothing behind.
// ADVERSARY 8 and 9.
func TestCloseUnderLoad(t *testing.T) {
	ends := []struct {
		name string
		end  func(x, y *rdmap.Conn, a, b net.Conn)
	}{
		{"close", func(x, _ *rdmap.Conn, _, _ net.Conn) { x.Close() }},
		{"peer closes", func(_, y *rdmap.Conn, _, _ net.Conn) { y.Close() }},
		{"abort", func(x, _ *rdmap.Conn, _, _ net.Conn) { x.Abort(rdmaptest.ErrTest) }},
		{"terminate", func(_, y *rdmap.Conn, _, _ net.Conn) { y.Terminate(verbs.TermCode{}, nil) }},
		{"wire cut", func(_, _ *rdmap.Conn, a, _ net.Conn) { a.Close() }},
	}
	for _, e := range ends {
		t.Run(e.name, func(t *testing.T) {
			OnWires(t, func(t *testing.T, a, b net.Conn) {
				h := &Calls{Pending: make(map[uint64]*rdmap.Waiter)}
				x, y := rdmaptest.Connect(t, a, b, &rdmap.Config{Handler: h, Receives: rdmap.Receives{Count: 100}}, &rdmap.Config{Handler: new(Shuffler), Receives: rdmap.Receives{Count: 100}})
				go y.Serve()
				reg := MustRegister(t, x, 100, rdmaptest.AllRights)
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
				if !h.Closed.Load() {
					t.Error("HandleClose was not called")
				}
				if n := x.Copied(); n != 0 {
					t.Errorf("%d octets of staging left", n)
				}
			})
		})
	}
}

// TestCancelledSink: a Read that was cancelled while it waited, and whose sink was then invalidated, has no effect.
func TestCancelledSink(t *testing.T) {
	OnWires(t, func(t *testing.T, a, b net.Conn) {
		x, p := RawResponder(t, a, b, &rdmap.Config{Startup: rdmap.Startup{ORD: 1}})
		first := MustRegister(t, x, 8, region.ReadSink)
		if err := x.Post([]verbs.WR{{Op: verbs.OpReadRequest, Sink: first.STag(), Len: 8}}); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := Cancellable(t)
		errs := make(chan error, 1)
		go func() { errs <- x.Read(ctx, make([]byte, 8), 1, 0) }()
		for x.Copied() == 0 {
			runtime.Gosched()
		}
		cancel()
		if err := <-errs; !errors.Is(err, ctx.Err()) {
			t.Fatal(err)
		}
		if _, err := p.Next(); err != nil {
			t.Fatal(err)
		}
		if err := p.Send(rdmaptest.ReadResponse(t, first.STag(), 0)[:14+8]); err != nil {
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
