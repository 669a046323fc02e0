package push_test

import (
	"context"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stag-rdma/stag/transport/push"
)

// behind is a client's Dial that goes through addr.
func behind(addr string) func(context.Context, string) (net.Conn, error) {
	return func(ctx context.Context, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "tcp", addr)
	}
}

// A client whose commit connections came to nothing a few times appends by call, and then by RDMA again: whatever
// ended them has passed. Nothing is lost or doubled on the way.
func TestReturn(t *testing.T) {
	t.Parallel()
	for name, octets := range map[string]int64{"at once": 1, "in the start-up": 60, "with the answer": 200} {
		t.Run(name, func(t *testing.T) {
			w := start(t, &push.Server{})
			var bad atomic.Int64
			bad.Store(5)
			c := &cutter{to: func() string { return w.rawCommit }, next: func() int64 {
				if bad.Add(-1) >= 0 {
					return octets
				}
				return 0
			}}
			s := w.dial("log", &push.Config{Dial: behind(c.run(t))})
			h := newHistory()
			late := time.After(10 * time.Second)
			for i := 0; s.Rung() != push.Native; i++ {
				select {
				case <-late:
					t.Fatalf("it appends by call for good, after %d connections", c.count())
				case <-time.After(10 * time.Millisecond): // or the log would be full by then
				}
				h.run(t, s, 2, 1, string(rune('a'+i%26))+time.Now().String())
			}
			h.run(t, s, 2, 20, "native ")
			l := w.ps.Log("log")
			h.check(t, l)
		})
	}
}
