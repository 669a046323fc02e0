package transport_test

import (
	"context"
	"errors"
	"net"
	"testing"

	"github.com/stag-rdma/stag/transport"
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
	if _, err := transport.Dial(testCtx(t), "tcp", addr, nil); err == nil {
		t.Error("Dial after Shutdown succeeded")
	}
}

// TestShutdownOutOfTime: calls that do not end are aborted, and their contexts cancelled.
func TestShutdownOutOfTime(t *testing.T) {
	h := newEcho()
	s, c := pair(t, h, nil, nil)
	got := make(chan error, 1)
	go func() { got <- try(t, c, &blockCall) }()
	<-h.enter
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := s.Shutdown(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("Shutdown: %v", err)
	}
	if err := <-got; !errors.Is(err, net.ErrClosed) {
		t.Errorf("call of an aborted server: %v", err)
	}
	waitFor(t, "the handler has left", func() bool { return s.Stats().InFlight == 0 })
}

// TestOverstay runs a handler that blocks and does not say so. The watchdog lets
// another goroutine read.
func TestOverstay(t *testing.T) {
	h := newEcho()
	s, c := pair(t, rpc.HandlerFunc(h.ServeRPC), nil, nil)
	mustDo(t, c, &nullCall)
	got := make(chan error, 1)
	go func() { got <- try(t, c, &blockCall) }()
	<-h.enter
	mustDo(t, c, &nullCall)
	close(h.leave)
	if err := <-got; err != nil {
		t.Error(err)
	}
	if s.Stats().Takeovers == 0 { // more: a short call that lost its processor
		t.Error("no takeover counted")
	}
}

// TestFree checks when the memory of a call is free again.
func TestFree(t *testing.T) {
	h := newEcho()
	_, c := pair(t, h, nil, nil)
	freed := make(chan struct{}, 2)
	free := func() { freed <- struct{}{} }
	call := itemCall(procSum, filled(5000))
	call.Free = free
	mustDo(t, c, call)
	select {
	case <-freed:
	default:
		t.Error("not free when Do has returned")
	}

	bad := echoCall(nil)
	bad.ItemPos, bad.Free = 3, free
	if err := try(t, c, bad); err != nil {
		t.Error(err) // no item: ItemPos means nothing
	}
	<-freed
	bad.Item = []byte{1}
	if err := try(t, c, bad); err == nil {
		t.Error("an inconsistent call was sent")
	}
	<-freed

	// Cancelled: free when the reply comes.
	block := blockCall
	block.Free = free
	ctx, cancel := context.WithCancel(testCtx(t))
	got := make(chan error, 1)
	go func() { got <- tryCtx(ctx, c, &block) }()
	<-h.enter
	cancel()
	<-got
	select {
	case <-freed:
		t.Error("free although the server may still use it")
	default:
	}
	h.leave <- struct{}{}
	<-freed

	// Cancelled: free when the connection ends.
	ctx, cancel = context.WithCancel(testCtx(t))
	go func() { got <- tryCtx(ctx, c, &block) }()
	<-h.enter
	cancel()
	<-got
	c.Close()
	<-freed
	close(h.leave)
	select {
	case <-freed:
		t.Error("freed twice")
	default:
	}
}
