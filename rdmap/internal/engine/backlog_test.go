package engine_test

import (
	"testing"

	"github.com/stag-rdma/stag/rdmap/internal/buf"
	"github.com/stag-rdma/stag/rdmap/internal/engine"
	"github.com/stag-rdma/stag/rdmap/internal/enginetest"
)

// TestPutOffBound: one connection puts off no more than maxPutOff, however large its Pool is.
func TestPutOffBound(t *testing.T) {
	pool := buf.NewPool(64 * engine.MaxBacklog)
	if _, ok := pool.Get(64 * engine.MaxBacklog); !ok {
		t.Fatal("no memory")
	}
	e := newEngine(engineConfig{recvs: 1, pool: pool})
	u := append(enginetest.Patch(t, enginetest.GoldSend, 0, 0x01)[:18], make([]byte, 1000)...) // not the last segment
	want := engine.EvStalled
	for {
		ev, err := e.rcv.Input(u)
		if err != nil {
			t.Fatal(err)
		}
		if ev.Kind == engine.EvBlocked {
			break
		}
		if ev.Kind != want || e.rcv.Backlog.Len() > engine.MaxBacklog {
			t.Fatalf("event %d, %d octets put off", ev.Kind, e.rcv.Backlog.Len())
		}
		want = engine.EvNone
	}
	if n := e.rcv.Backlog.Len(); n < engine.MaxBacklog/4 {
		t.Errorf("no more than %d octets", n)
	}
	e.rcv.Close()
	if pool.Load().PutOff != 0 {
		t.Errorf("%d octets count as put off after the end", pool.Load().PutOff)
	}
}
