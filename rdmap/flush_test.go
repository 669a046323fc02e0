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

// TestFlushOverstays: the goroutine in Serve carries out a flush, and loses the reading role to another
// one when the flush hangs, even if no more upcalls may take over. What arrives after it is read and,
// as far as the order permits, answered; requests queued after it are executed later. An upcall that
// blocks in the same burst does not keep the flush from being executed.
func TestFlushOverstays(t *testing.T) {
	OnWires(t, func(t *testing.T, a, b net.Conn) {
		h := &Blocker{Release: make(chan struct{})}
		cfg := &rdmap.Config{Startup: rdmap.Startup{Extensions: verbs.ExtCommit}, Handler: h, Reading: rdmap.Reading{HandlerLimit: 2 * time.Millisecond, MaxHandlers: 1}}
		x, y := rdmaptest.Connect(t, a, b, &rdmap.Config{Startup: rdmap.Startup{Extensions: verbs.ExtCommit}}, cfg)
		mem := NewHanging()
		reg, err := y.Table().RegisterMemory(mem, region.Options{Access: rdmaptest.CommitRights})
		if err != nil {
			t.Fatal(err)
		}
		go y.Serve()
		var ws [3]rdmap.Waiter
		post := func(w *rdmap.Waiter, s string) { // a flush, and a Send that does not wait for it
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
		<-mem.Entered
		post(&ws[1], "one")
		echo("one")
		if n := y.Stats().Takeovers; n != 2 || ws[0].Done() {
			t.Fatalf("%d takeovers; answered: %v", n, ws[0].Done())
		}
		close(mem.Release)
		post(&ws[2], "two")
		echo("two")
		for i := range ws {
			if err := x.Wait(t.Context(), &ws[i]); err != nil {
				t.Fatal(i, err)
			}
		}
		close(h.Release)
		echo("blocks")
		x.Close()
		Within(t, "the end", y.Done())
	})
}
