package rdmap_test

import (
	"net"
	"sync"
	"testing"
	"time"

	"github.com/stag-rdma/stag/rdmap"
	"github.com/stag-rdma/stag/rdmap/rdmaptest"
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
