package push_test

import (
	"context"
	"testing"

	"github.com/stag-rdma/stag/transport"
	"github.com/stag-rdma/stag/transport/commitlog"
	"github.com/stag-rdma/stag/transport/push"
	"github.com/stag-rdma/stag/transport/rpc"
)

// TestCallerGone: a session whose calls have no connection anymore, and get no other, ends: whoever
// appends is told, and does not wait forever.
func TestCallerGone(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		best push.Rung
		tcp  bool
	}{"native": {push.Native, false}, "append": {push.Append, false}, "native, TCP": {push.Native, true}, "append, TCP": {push.Append, true}} {
		t.Run(name, func(t *testing.T) {
			w := start(t, &push.Server{})
			var c rpc.Caller
			var err error
			if tt.tcp {
				l := w.listen()
				ts := &transport.Server{Handler: w.ps}
				w.serve(func() { _ = ts.ServeStream(l) })
				w.done = append(w.done, func() { ts.Close() })
				c, err = transport.DialStream(t.Context(), "tcp", l.Addr().String(), nil)
			} else {
				c, err = transport.Dial(t.Context(), "tcp", w.rpc, nil)
			}
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			s := must(push.Dial(t.Context(), c, "log", &push.Config{Best: tt.best, Secret: push.NewSecret()}))(t)
			appended(t, s, commitlog.Persistent, 1, "one")
			w.stop()
			if _, err := s.Append(t.Context(), []byte("two")); err == nil || s.Err() == nil || t.Context().Err() != nil {
				t.Errorf("appended without a log: %v; the session: %v", err, s.Err())
			}
			_ = s.Close(context.Background())
		})
	}
}
