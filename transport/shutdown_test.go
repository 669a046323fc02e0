package transport_test

import (
	"context"
	"errors"
	"net"
	"testing"

	"github.com/stag-rdma/stag/transport/rpc"
)

var blockCall = rpc.Call{Prog: testProg, Vers: testVers, Proc: procBlock}

// TestShutdownDrains answers the calls that have come, closes idle connections and
// executes nothing more.
func TestShutdownDrains(t *testing.T) {
	h := newEcho()
	s, addr := startServer(t, h, nil)
	busy, idle := dial(t, addr, nil), dial(t, addr, nil)
	mustDo(t, busy, &nullCall)
	mustDo(t, idle, &nullCall)
	got := make(chan error, 1)
	go func() { got <- try(t, busy, &blockCall) }()
	<-h.enter
	down := make(chan error, 1)
	go func() { down <- s.Shutdown(testCtx(t)) }()
	waitFor(t, "the idle connection is closed", func() bool { return s.Stats().Connections == 1 })
	if err := try(t, idle, &nullCall); !errors.Is(err, net.ErrClosed) {
		t.Errorf("call on the idle connection: %v", err)
	}
	late := make(chan error, 1)
	go func() { late <- try(t, busy, &nullCall) }()
	waitFor(t, "the late call is dropped", func() bool { return s.Stats().Dropped == 1 })
	select {
	case err := <-down:
		t.Fatalf("Shutdown returned %v with a call running", err)
	default:
	}
	close(h.leave)
	if err := <-got; err != nil {
		t.Errorf("call during Shutdown: %v", err)
	}
	if err := <-late; !errors.Is(err, net.ErrClosed) {
		t.Errorf("call that came too late: %v", err)
	}
	if err := <-down; err != nil {
		t.Errorf("Shutdown: %v", err)
	}
	if st := s.Stats(); st.Connections != 0 || st.InFlight != 0 || st.Calls != 3 {
		t.Errorf("%+v", st)
	}
	if _, err := dialAddr(testCtx(t), t, addr, nil); err == nil {
		t.Error("Dial after Shutdown succeeded")
	}
}

// TestShutdownOutOfTime: calls that do not end are aborted, and their contexts cancelled; before, Shutdown waits.
func TestShutdownOutOfTime(t *testing.T) {
	for _, network := range []string{"rdma", "tcp"} {
		h := newEcho()
		s, addr := served(t, overShared, h, testConfig())
		c := connect(t, network, addr, testConfig())
		got := make(chan error, 1)
		go func() { got <- try(t, c, &blockCall) }()
		<-h.enter
		ctx, cancel := context.WithCancel(context.Background())
		down := make(chan error, 1)
		go func() { down <- s.Shutdown(ctx) }()
		waitFor(t, "it shuts down", s.IsClosing)
		select {
		case err := <-down:
			t.Fatalf("%s: Shutdown returned %v with a call running", network, err)
		default:
		}
		if network == "tcp" { // TestShutdownDrains has the other
			h.leave <- struct{}{}
			if err := errors.Join(<-got, <-down); err != nil || s.Stats().Connections != 0 {
				t.Errorf("%s: %v, %d connections", network, err, s.Stats().Connections)
			}
			s, addr = served(t, overTCP, h, testConfig())
			c = connect(t, network, addr, testConfig())
			go func() { got <- try(t, c, &blockCall) }()
			<-h.enter
			go func() { down <- s.Shutdown(ctx) }()
		}
		cancel()
		if err := <-down; !errors.Is(err, context.Canceled) {
			t.Errorf("%s: Shutdown: %v", network, err)
		}
		if err := <-got; err == nil || network == "rdma" && !errors.Is(err, net.ErrClosed) {
			t.Errorf("%s: call of an aborted server: %v", network, err)
		}
		waitFor(t, "the handler has left", func() bool { return s.Stats().InFlight == 0 })
	}
}
