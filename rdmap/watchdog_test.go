package rdmap

import (
	"testing"
	"time"

	"github.com/stag-rdma/stag/rdmap/internal/drive"
)

// TestWatchdogPace: the watchdog looks often only while upcalls are running, and for a while after it took the role from one.
func TestWatchdogPace(t *testing.T) {
	a, b := tcpPair(t)
	h := &blocker{release: make(chan struct{})}
	x, y := connect(t, a, b, nil, &Config{Handler: h}) // without the watchdog of the process
	go y.Serve()
	w := &watched{c: y, t: drive.NewTicker(watchdogRest, watchdogTick, false)}
	look := func(want time.Duration) {
		t.Helper()
		if w.Tick(); w.t.Period() != want {
			t.Fatalf("the next look is not in %v", want)
		}
	}
	look(watchdogRest)
	for range 2 {
		if err := x.Send(t.Context(), []byte("b")); err != nil {
			t.Fatal(err)
		}
		before := y.Stats().Takeovers
		for y.upcalls.Load()&1 == 0 {
			time.Sleep(time.Millisecond)
		}
		look(watchdogTick)
		for range watchdogAlert {
			look(watchdogTick) // the first look takes the role
		}
		look(watchdogRest)
		if n := y.Stats().Takeovers - before; n != 1 {
			t.Fatalf("%d takeovers", n)
		}
	}
	close(h.release)
	for range 2 {
		if _, err := x.Recv(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}
