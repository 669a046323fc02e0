package rdmap_test

import (
	"net"
	"testing"
	"time"

	"github.com/stag-rdma/stag/rdmap"
	"github.com/stag-rdma/stag/rdmap/rdmaptest"
	"github.com/stag-rdma/stag/rdmap/region"
	"github.com/stag-rdma/stag/rdmap/verbs"
)

// TestEndWithFlushRunning: the end of the connection waits neither for a flush nor for the goroutine
// that executes it instead of reading. What arrives after the flush is received if the watchdog is fast.
func TestEndWithFlushRunning(t *testing.T) {
	for _, limit := range []time.Duration{2 * time.Millisecond, time.Hour} {
		a, b := TcpPair(t)
		x, y := rdmaptest.Connect(t, a, b, &rdmap.Config{Startup: rdmap.Startup{Extensions: verbs.ExtCommit}}, &rdmap.Config{Startup: rdmap.Startup{Extensions: verbs.ExtCommit}, Reading: rdmap.Reading{HandlerLimit: limit}})
		mem := NewHanging()
		reg := must(y.Table().RegisterMemory(mem, region.Options{Access: rdmaptest.CommitRights}))(t)
		served := make(chan struct{})
		go func() {
			y.Serve()
			close(served)
		}()
		go x.Flush(t.Context(), reg.STag(), 0, 64, verbs.FlushPersistent)
		<-mem.Entered
		if limit < time.Hour {
			noErr(t, x.Post([]verbs.WR{{Op: verbs.OpSend, Head: []byte("behind")}}))
			if m, err := y.Recv(t.Context()); err != nil || string(m.Data) != "behind" {
				t.Fatal(m, err)
			}
		}
		y.Abort(rdmaptest.ErrTest)
		Within(t, "the end", x.Done())
		close(mem.Release)
		Within(t, "the end", y.Done())
		Within(t, "the return of Serve", served)
		if n := y.Takeovers(); n != 0 {
			t.Errorf("%d takeovers are counted as running", n)
		}
	}
}

// TestEndWithUpcallRunning: the end of the connection does not wait for an upcall that blocks.
func TestEndWithUpcallRunning(t *testing.T) {
	OnWires(t, func(t *testing.T, a, b net.Conn) {
		h := &Blocker{Release: make(chan struct{})}
		x, y := rdmaptest.Connect(t, a, b, nil, &rdmap.Config{Handler: h})
		go y.Serve()
		noErr(t, x.Send(t.Context(), []byte("b")))
		for !y.InUpcall() {
			time.Sleep(time.Millisecond)
		}
		y.Abort(rdmaptest.ErrTest)
		Within(t, "the end", y.Done())
		close(h.Release)
		for y.Takeovers() != 0 {
			time.Sleep(time.Millisecond)
		}
	})
}

// TestWatchdogPace: the watchdog looks often only while upcalls are running, and for a while after it took the role from one.
func TestWatchdogPace(t *testing.T) {
	a, b := TcpPair(t)
	h := &Blocker{Release: make(chan struct{})}
	x, y := rdmaptest.Connect(t, a, b, nil, &rdmap.Config{Handler: h}) // without the watchdog of the process
	go y.Serve()
	w, ticker := y.NewWatchdog()
	look := func(want time.Duration) {
		t.Helper()
		if w.Tick(); ticker.Period() != want {
			t.Fatalf("the next look is not in %v", want)
		}
	}
	look(rdmap.WatchdogRest)
	for range 2 {
		noErr(t, x.Send(t.Context(), []byte("b")))
		before := y.Stats().Takeovers
		for !y.InUpcall() {
			time.Sleep(time.Millisecond)
		}
		look(rdmap.WatchdogTick)
		for range rdmap.WatchdogAlert {
			look(rdmap.WatchdogTick) // the first look takes the role
		}
		look(rdmap.WatchdogRest)
		if n := y.Stats().Takeovers - before; n != 1 {
			t.Fatalf("%d takeovers", n)
		}
	}
	close(h.Release)
	for range 2 {
		if _, err := x.Recv(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}
