package push_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stag-rdma/stag/transport"
	"github.com/stag-rdma/stag/transport/commitlog"
	"github.com/stag-rdma/stag/transport/push"
	"github.com/stag-rdma/stag/transport/rpc"
)

// The server asks for less of the ring, by a call in the backward direction: no more than
// that is appended until the consumer releases, on both rungs, and then as before.
func TestPressure(t *testing.T) {
	for _, best := range []push.Rung{push.Native, push.Append} {
		t.Run(best.String(), func(t *testing.T) {
			w := start(t, &push.Server{})
			var back push.Callbacks
			rpc, err := transport.Dial(t.Context(), "tcp", w.rpc, &transport.Config{Backward: transport.Backward{Credits: 2, Handler: &back}})
			if err != nil {
				t.Fatal(err)
			}
			defer rpc.Close()
			s, err := push.Dial(t.Context(), rpc, "log", &push.Config{Best: best, Capacity: 1 << 16, Callbacks: &back, Secret: push.NewSecret()})
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close(context.Background())
			l, err := w.ps.Log("log")
			if err != nil {
				t.Fatal(err)
			}
			if err := l.Pressure(t.Context(), 256, time.Millisecond); err != nil {
				t.Fatal(err)
			}
			var acked atomic.Int64
			done := make(chan struct{})
			go func() {
				defer close(done)
				for range 12 {
					if _, err := s.Append(t.Context(), make([]byte, 36)); err != nil { // 64 in the ring
						t.Error(err)
					}
					acked.Add(1)
				}
			}()
			seq := uint64(0)
			next := func() {
				r, err := l.Next(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				seq = r.Seq
			}
			for range 4 {
				next()
			}
			if r, err := l.TryNext(); r != nil || acked.Load() > 4 {
				t.Fatal("more than the window:", r, err)
			}
			if err := l.Release(2); err != nil {
				t.Fatal(err)
			}
			next()
			next()
			if r, err := l.TryNext(); r != nil {
				t.Fatal("more than the window:", r, err)
			}
			if err := l.Pressure(t.Context(), 0, 0); err != nil {
				t.Fatal(err)
			}
			<-done
			for seq < 12 {
				next()
			}
		})
	}
}

// A client without the backward direction is asked with its next OPEN.
func TestPressureAtOpen(t *testing.T) {
	t.Parallel()
	w := start(t, &push.Server{})
	secret := push.NewSecret()
	s := w.dial("log", &push.Config{Secret: secret})
	l, err := w.ps.Log("log")
	if err != nil {
		t.Fatal(err)
	}
	err = l.Pressure(t.Context(), 128, 3*time.Millisecond)
	if e, ok := errors.AsType[*rpc.RPCError](err); !ok || e.Reason != rpc.ReasonBackward {
		t.Error(err)
	}
	_ = s.Close(t.Context())
	if err := l.Pressure(t.Context(), 128, 3*time.Millisecond); err != nil {
		t.Error("nobody to ask:", err)
	}
	r := ask(w.ps, "127.0.0.1:1", openArgs{Name: "log", Secret: secret})
	if r.Opened.Pressure != (pressure{Window: 128, Gap: 3}) {
		t.Errorf("%+v", r.Opened.Pressure)
	}
	s = w.dial("log", &push.Config{Secret: secret})
	appended(t, s, commitlog.Persistent, 1, "one", "two")
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := s.Append(ctx, nil); !errors.Is(err, context.DeadlineExceeded) {
		t.Error("more than the window:", err)
	}
}

// A wish for a session that is over is answered so.
func TestPressureStale(t *testing.T) {
	var c push.Callbacks
	args := append(make([]byte, 16), make([]byte, 8+4)...) // of a session, a window and a gap
	if st := push.Status(called(t.Context(), &c, "127.0.0.1:1", callbackProgram, procPressure, args).Uint32()); st != push.StatusStale {
		t.Error(st)
	}
}
