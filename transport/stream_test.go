package transport_test

import (
	"context"
	"errors"
	"net"
	"testing"
	"time"

	"github.com/stag-rdma/stag/transport"
	"github.com/stag-rdma/stag/transport/rpc"
)

// startStream serves h on loopback TCP and connects a client.
func startStream(t testing.TB, h rpc.Handler, cfg *transport.Config) (*transport.Server, *transport.StreamClient) {
	t.Helper()
	s := &transport.Server{Handler: h, Config: cfg}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- s.ServeStream(l) }()
	c, err := transport.DialStream(testCtx(t), "tcp", l.Addr().String(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		c.Close()
		s.Close()
		if err := <-served; !errors.Is(err, transport.ErrServerClosed) {
			t.Errorf("ServeStream: %v", err)
		}
	})
	return s, c
}

func TestStreamShutdownDrains(t *testing.T) {
	h := newEcho()
	s, c := startStream(t, h, nil)
	got := make(chan error, 1)
	go func() {
		got <- try(t, c, &rpc.Call{Prog: testProg, Vers: testVers, Proc: procBlock})
	}()
	<-h.enter
	down := make(chan error, 1)
	go func() { down <- s.Shutdown(testCtx(t)) }()
	for !s.IsClosing() {
		time.Sleep(time.Millisecond)
	}
	select {
	case err := <-down:
		t.Fatalf("Shutdown returned %v with a call running", err)
	default:
	}
	close(h.leave)
	if err := <-got; err != nil {
		t.Errorf("call during Shutdown: %v", err)
	}
	if err := <-down; err != nil {
		t.Errorf("Shutdown: %v", err)
	}
	if n := s.Stats().Connections; n != 0 {
		t.Errorf("%d connections left", n)
	}
}

func TestStreamShutdownOutOfTime(t *testing.T) {
	h := newEcho()
	s, c := startStream(t, h, nil)
	got := make(chan error, 1)
	go func() {
		got <- try(t, c, &rpc.Call{Prog: testProg, Vers: testVers, Proc: procBlock})
	}()
	<-h.enter
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := s.Shutdown(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("Shutdown: %v", err)
	}
	if err := <-got; err == nil {
		t.Error("the call was answered though its server was aborted")
	}
}

func TestStreamTooBig(t *testing.T) {
	_, c := startStream(t, newEcho(), &transport.Config{MaxPayload: 4096})
	err := try(t, c, echoCall(make([]byte, 4096)))
	if e, ok := errors.AsType[*rpc.RPCError](err); !ok || e.Reason != rpc.ReasonTooBig {
		t.Errorf("call above MaxPayload: %v", err)
	}
	mustDo(t, c, &rpc.Call{Prog: testProg, Vers: testVers})
}
