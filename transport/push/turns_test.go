package push_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stag-rdma/stag/transport/commitlog"
	"github.com/stag-rdma/stag/transport/push"
)

// TestTakenOver: a record that nobody has answered is lost with its server, and while its client
// is cut off another one appends under the same number. The server starts once more, finds in the log
// who has had it last, and tells the first one that it is fenced.
func TestTakenOver(t *testing.T) {
	t.Parallel()
	for _, best := range []push.Rung{push.Native, push.Append} {
		t.Run(best.String(), func(t *testing.T) {
			var calls, commits atomic.Pointer[string]
			nowhere := "127.0.0.1:1"
			way := func(to *atomic.Pointer[string]) (*cutter, string) {
				c := &cutter{next: func() int64 { return 0 }, to: func() string { return *to.Load() }}
				to.Store(&nowhere)
				return c, c.run(t)
			}
			callCutter, rpc := way(&calls)
			commitCutter, commit := way(&commits)

			store, mem := blockingStore()
			w := start(t, &push.Server{Store: store, Limits: push.Limits{AppendTime: time.Hour}})
			there := w.ps.Addr
			w.ps.Addr = commit
			calls.Store(&w.rpc)
			commits.Store(&there)
			secret := push.NewSecret()
			first, err := push.Dial(t.Context(), redialer(t, func() string { return rpc }), "log", &push.Config{
				Best: best, Secret: secret, MinDelay: 1e6, MaxDelay: 1e7,
			})
			if err != nil {
				t.Fatal(err)
			}
			defer first.Close(context.Background())
			appended(t, first, commitlog.Persistent, 1, "before")
			mem().block()
			ours, err := first.Begin([]byte("ours"))
			if err != nil {
				t.Fatal(err)
			}
			<-mem().waiting // it is placed, and never flushed
			calls.Store(&nowhere)
			commits.Store(&nowhere)
			callCutter.cut()
			commitCutter.cut()
			store = store.crashed()
			mem().release()
			w.stop()

			w = start(t, &push.Server{Store: store})
			second := w.dial("log", &push.Config{Best: best, Secret: secret})
			appended(t, second, commitlog.Persistent, 2, "theirs")
			_ = second.Close(t.Context())
			w.stop()

			w = start(t, &push.Server{Store: store.crashed()})
			calls.Store(&w.rpc)
			if r, err := ours.Wait(t.Context()); !errors.Is(err, commitlog.ErrClosed) {
				t.Errorf("acknowledged: %+v %v", r, err)
			}
			if err := first.Err(); !errors.Is(err, push.StatusFenced) {
				t.Error(err)
			}
			w.take("log", 1, "before", "theirs")
		})
	}
}
