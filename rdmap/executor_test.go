package rdmap

import (
	"net"
	"testing"
	"time"

	"github.com/stag-rdma/stag/rdmap/internal/enginetest"
	"github.com/stag-rdma/stag/rdmap/region"
	"github.com/stag-rdma/stag/rdmap/verbs"
)

// hanging is memory whose flushes wait until they are released.
type hanging struct {
	*enginetest.Persisting
	entered, release chan struct{}
}

func newHanging() *hanging {
	return &hanging{&enginetest.Persisting{Mem: make([]byte, 64)}, make(chan struct{}, 8), make(chan struct{})}
}

func (m *hanging) Persist(off, n int) error {
	m.entered <- struct{}{}
	<-m.release
	return m.Persisting.Persist(off, n)
}

// TestFlushOverstays: the goroutine in Serve carries out a flush, and loses the reading role to another
// one when the flush hangs, even if no more upcalls may take over. What arrives after it is read and,
// as far as the order permits, answered; requests queued after it are executed later. An upcall that
// blocks in the same burst does not keep the flush from being executed.
func TestFlushOverstays(t *testing.T) {
	onWires(t, func(t *testing.T, a, b net.Conn) {
		h := &blocker{release: make(chan struct{})}
		cfg := &Config{Extensions: verbs.ExtCommit, Handler: h, HandlerLimit: 2 * time.Millisecond, MaxTakeovers: 1}
		x, y := connect(t, a, b, &Config{Extensions: verbs.ExtCommit}, cfg)
		mem := newHanging()
		reg, err := y.Table().RegisterMemory(mem, region.Options{Access: enginetest.CommitRights})
		if err != nil {
			t.Fatal(err)
		}
		go y.Serve()
		var ws [3]Waiter
		post := func(w *Waiter, s string) { // a flush, and a Send that does not wait for it
			w.Reset()
			flush := verbs.WR{Op: verbs.OpFlushRequest, STag: reg.STag(), Len: 64, Flags: verbs.FlushPersistent, Done: w}
			if err := x.Post([]verbs.WR{flush, {Op: verbs.OpSend, Head: []byte(s)}}); err != nil {
				t.Fatal(err)
			}
		}
		echo := func(want string) {
			t.Helper()
			if m, err := x.Recv(t.Context()); err != nil || string(m.Data) != want {
				t.Fatal(m, err)
			}
		}
		post(&ws[0], "blocks")
		<-mem.entered
		post(&ws[1], "one")
		echo("one")
		if n := y.Stats().Takeovers; n != 2 || ws[0].Done() {
			t.Fatalf("%d takeovers; answered: %v", n, ws[0].Done())
		}
		close(mem.release)
		post(&ws[2], "two")
		echo("two")
		for i := range ws {
			if err := x.Wait(t.Context(), &ws[i]); err != nil {
				t.Fatal(i, err)
			}
		}
		close(h.release)
		echo("blocks")
		x.Close()
		within(t, "the end", y.Done())
	})
}

// TestEndWithFlushRunning: the end of the connection waits neither for a flush nor for the goroutine
// that executes it instead of reading. What arrives after the flush is received if the watchdog is fast.
func TestEndWithFlushRunning(t *testing.T) {
	for _, limit := range []time.Duration{2 * time.Millisecond, time.Hour} {
		a, b := tcpPair(t)
		x, y := connect(t, a, b, &Config{Extensions: verbs.ExtCommit}, &Config{Extensions: verbs.ExtCommit, HandlerLimit: limit})
		mem := newHanging()
		reg, err := y.Table().RegisterMemory(mem, region.Options{Access: enginetest.CommitRights})
		if err != nil {
			t.Fatal(err)
		}
		served := make(chan struct{})
		go func() {
			y.Serve()
			close(served)
		}()
		go x.Flush(t.Context(), reg.STag(), 0, 64, verbs.FlushPersistent)
		<-mem.entered
		if limit < time.Hour {
			if err := x.Post([]verbs.WR{{Op: verbs.OpSend, Head: []byte("behind")}}); err != nil {
				t.Fatal(err)
			}
			if m, err := y.Recv(t.Context()); err != nil || string(m.Data) != "behind" {
				t.Fatal(m, err)
			}
		}
		y.Abort(enginetest.ErrTest)
		within(t, "the end", x.Done())
		close(mem.release)
		within(t, "the end", y.Done())
		within(t, "the return of Serve", served)
		if n := y.takeovers.Load(); n != 0 {
			t.Errorf("%d takeovers are counted as running", n)
		}
	}
}
