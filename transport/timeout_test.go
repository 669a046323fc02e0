package transport_test

import (
	"bytes"
	"context"
	"errors"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stag-rdma/stag/transport"
	"github.com/stag-rdma/stag/transport/rpc"
)

// unwatched is cfg without the watchdog, which is one goroutine of the process and so
// never in a bubble: the goroutine that it relieves would continue outside.
func unwatched(cfg *transport.Config) *transport.Config {
	c := *cfg
	c.Reading.HandlerLimit = -1
	return &c
}

// pipePair is pair over a connection in memory, for bubbles. end closes both ends and
// waits.
func pipePair(t *testing.T, h rpc.Handler, server, client *transport.Config) (s *transport.Server, c *transport.Client, end func()) {
	t.Helper()
	a, b := pipe(t)
	s = &transport.Server{Handler: h, Config: unwatched(server)}
	served := make(chan error, 1)
	go func() { served <- s.ServeConn(b) }()
	c, err := transport.NewClient(t.Context(), a, client)
	noErr(t, err)
	return s, c, func() {
		c.Close()
		<-served
		<-c.Conn().Done()
		s.Close()
	}
}

// TestCallTimeout ends calls by the process-wide tick, whether they wait for their
// reply or for a credit.
func TestCallTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newEcho()
		cfg := testConfig()
		cfg.Credits, cfg.Timeouts.Call = 1, 7*time.Second
		_, c, end := pipePair(t, h, testConfig(), cfg)
		defer end()
		start := time.Now()
		first, second := make(chan error, 1), make(chan error, 1)
		go func() { first <- tryCtx(t.Context(), c, &blockCall) }()
		<-h.enter
		go func() { second <- tryCtx(t.Context(), c, &nullCall) }()
		for _, ch := range []chan error{first, second} {
			err := <-ch
			e, ok := errors.AsType[*rpc.OpError](err)
			if !ok || !e.Timeout() || !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("call out of time: %v", err)
			}
			if d := time.Since(start); d < 7*time.Second || d > 7*time.Second+200*time.Millisecond {
				t.Errorf("ended after %v", d)
			}
		}
		if n := c.Stats().InFlight; n != 1 {
			t.Errorf("%d calls in flight, want the one without an answer", n)
		}
		close(h.leave)
		time.Sleep(time.Second) // until the idle connection is watched
		synctest.Wait()
		if n := c.Stats().InFlight; n != 0 {
			t.Errorf("%d calls in flight after the late reply", n)
		}
		if err := tryCtx(t.Context(), c, &nullCall); err != nil {
			t.Error(err)
		}
		time.Sleep(200 * time.Millisecond)
		synctest.Wait()
		stacks := make([]byte, 1<<20)
		if stacks = stacks[:runtime.Stack(stacks, true)]; bytes.Contains(stacks, []byte("(*ticker).run")) {
			t.Errorf("the tick runs without timed calls:\n%s", stacks)
		}
	})
}
