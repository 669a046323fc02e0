package engine_test

import (
	"errors"
	"testing"
	"time"

	"github.com/stag-rdma/stag/rdmap/internal/buf"
	"github.com/stag-rdma/stag/rdmap/internal/engine"
	"github.com/stag-rdma/stag/rdmap/rdmaptest"
	"github.com/stag-rdma/stag/rdmap/verbs"
)

// TestPutOffBound: one connection puts off no more than maxPutOff, however large its Pool is.
func TestPutOffBound(t *testing.T) {
	pool := buf.NewPool(64 * engine.MaxBacklog)
	if _, ok := pool.Get(64 * engine.MaxBacklog); !ok {
		t.Fatal("no memory")
	}
	e := newEngine(engineConfig{recvs: 1, pool: pool})
	u := append(rdmaptest.Patch(t, rdmaptest.Gold.Send, 0, 0x01)[:18], make([]byte, 1000)...) // not the last segment
	want := engine.EvStalled
	for {
		ev := must(e.rcv.Input(u))(t)
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

// TestMemoryWait: a Send that is put off waits until there is memory for it, or its time is over; the Send behind it has
// a time of its own.
func TestMemoryWait(t *testing.T) {
	const limit = 10 * time.Second
	from := time.Unix(1000, 0)
	begin := func() (*halves, buf.Mem, []byte) {
		pool := buf.NewPool(64)
		held, ok := pool.Get(64)
		if !ok {
			t.Fatal("no memory")
		}
		e := newEngine(engineConfig{recvs: 9, pool: pool, size: 64})
		e.rcv.Wait.Limit = limit
		u := rdmaptest.ULPDU(t, rdmaptest.Unhex(t, rdmaptest.Gold.Send))
		u[0] &^= 0x40 // not the last segment: it needs memory
		if ev, err := e.rcv.Input(u); err != nil || ev.Kind != engine.EvStalled {
			t.Fatalf("%+v, %v", ev, err)
		}
		e.rcv.Wait.Begin(from)
		if _, err := e.rcv.Input(u); err != nil { // the same MSN and offset: refused when its turn comes
			t.Fatal(err)
		}
		return e, held, u
	}
	e, _, _ := begin()
	if ev, err := e.rcv.Replay(from.Add(limit - 1)); err != nil || ev.Kind != engine.EvBlocked || e.rcv.Wait.Turns() != 1 {
		t.Errorf("just before the end: %+v, %v", ev, err)
	}
	_, err := e.rcv.Replay(from.Add(limit))
	if pe, ok := errors.AsType[*verbs.ProtocolError](err); !ok || pe.Code != (verbs.TermCode{Layer: 1, EType: 2, Code: 2}) {
		t.Errorf("at the end: %v", err)
	}
	e, held, u := begin()
	e.rcv.Pool().Put(held)
	if ev, err := e.rcv.Replay(from.Add(limit)); err != nil || ev.Kind != engine.EvNone || e.rcv.Wait.Turns() != 2 || e.rcv.Backlog.Len() != 2+len(u) {
		t.Errorf("with memory: %+v, %v, %d turns", ev, err, e.rcv.Wait.Turns())
	}
	e.rcv.Close()
}
