package redial_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/stag-rdma/stag/transport"
	"github.com/stag-rdma/stag/transport/redial"
	"github.com/stag-rdma/stag/transport/rpc"
)

// resetting is a server whose handler resets the connection of its first calls.
type resetting struct {
	addr string

	mu     sync.Mutex
	resets int
	ran    int
	conns  []net.Conn
}

// reset is called in the middle of a call.
func (s *resetting) reset() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ran++
	if s.resets--; s.resets < 0 {
		return
	}
	for _, c := range s.conns {
		_ = c.(*net.TCPConn).SetLinger(0)
		_ = c.Close()
	}
	s.conns = nil
}

// serveResetting serves one program with a plain HandlerFunc.
func serveResetting(t *testing.T, resets int) *resetting {
	t.Helper()
	r := &resetting{resets: resets}
	s := &transport.Server{Handler: rpc.HandlerFunc(func(_ context.Context, req *rpc.Request, _ *rpc.Response) {
		if req.Proc != 0 {
			r.reset()
		}
	})}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r.addr = l.Addr().String()
	var served sync.WaitGroup
	served.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			r.mu.Lock()
			r.conns = append(r.conns, c)
			r.mu.Unlock()
			served.Go(func() { _ = s.ServeSharedConn(c) })
		}
	})
	t.Cleanup(func() { _ = l.Close(); _ = s.Close(); served.Wait() })
	return r
}

// The connection ends in the middle of a call. It is sent again only if the caller says that it may be; otherwise
// it runs once, and the caller learns that nobody knows whether it has run.
func TestOutcome(t *testing.T) {
	for _, network := range []string{"rdma", "tcp"} {
		for _, x := range []struct {
			repeatable bool
			resets     int
			ran        int
			fails      bool
		}{
			{false, 1, 1, true},
			{true, 1, 2, false},
			{true, 100, 3, true},
		} {
			t.Run(fmt.Sprintf("%s, repeatable %v, %d resets", network, x.repeatable, x.resets), func(t *testing.T) {
				s := serveResetting(t, x.resets)
				r, err := redial.New(&redial.Config{
					Dial: func(ctx context.Context) (redial.Conn, error) {
						if network == "tcp" {
							return transport.DialStream(ctx, "tcp", s.addr, nil)
						}
						return transport.Dial(ctx, "tcp", s.addr, nil)
					},
					MinDelay: time.Millisecond, MaxDelay: 10 * time.Millisecond, Transmissions: 3,
				})
				if err != nil {
					t.Fatal(err)
				}
				defer r.Close()
				call := &rpc.Call{Prog: 400_000, Vers: 1, Proc: 5, Repeatable: x.repeatable}
				var reply rpc.Reply
				err = r.Do(t.Context(), call, &reply)
				reply.Release()
				s.mu.Lock()
				ran := s.ran
				s.mu.Unlock()
				if ran != x.ran || (err != nil) != x.fails {
					t.Errorf("ran %d times, want %d: %v", ran, x.ran, err)
				}
				if !x.fails {
					return
				}
				oe, ok := errors.AsType[*rpc.OutcomeError](err)
				if !ok || oe.Prog != 400_000 || oe.Vers != 1 || oe.Proc != 5 || oe.Sent != x.ran || oe.Repeatable != x.repeatable {
					t.Errorf("%#v", err)
				}
				if _, ok := errors.AsType[*rpc.OpError](err); !ok {
					t.Errorf("the cause is not in it: %v", err)
				}
				s.mu.Lock()
				s.resets = 0
				s.mu.Unlock()
				if err := r.Do(t.Context(), call, &reply); err != nil {
					t.Errorf("the next call: %v", err)
				}
				reply.Release()
			})
		}
	}
}

// A NULL call does nothing, so it is sent again; a call that was never sent has no outcome.
func TestNoOutcome(t *testing.T) {
	refused := errors.New("refused by the test")
	r, err := redial.New(&redial.Config{
		Dial:     func(context.Context) (redial.Conn, error) { return nil, refused },
		MinDelay: time.Millisecond, MaxDelay: time.Millisecond, Patience: 10 * time.Millisecond,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	for proc := range uint32(2) {
		var reply rpc.Reply
		err := r.Do(t.Context(), &rpc.Call{Prog: 400_000, Vers: 1, Proc: proc}, &reply)
		if _, ok := errors.AsType[*rpc.OutcomeError](err); ok || !errors.Is(err, refused) {
			t.Errorf("procedure %d: %v", proc, err)
		}
	}
}
