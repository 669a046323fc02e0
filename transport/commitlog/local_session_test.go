package commitlog

import (
	"bytes"
	"context"
	"errors"
	"runtime"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stag-rdma/stag/rdmap/region"
	"github.com/stag-rdma/stag/rdmap/region/pmem/pmemtest"
)

// These tests look at the session without a connection: who executes, and the moment between a
// failure and the end of the session.

// openLocal returns a log on mem and a producer that appends to it.
func openLocal(t *testing.T, mem region.Memory) (*Log, *Producer) {
	t.Helper()
	if err := Create(mem, &Options{Mode: WAL}); err != nil {
		t.Fatal(err)
	}
	l, err := Open(mem)
	if err != nil {
		t.Fatal(err)
	}
	p := NewProducer(nil)
	t.Cleanup(func() {
		p.Close()
		if err := l.Close(context.Background()); err != nil {
			t.Error("close:", err)
		}
	})
	if err := l.Local(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	return l, p
}

// stackMemory is a memory that knows whether a test function's own goroutine was the last to
// persist it.
type stackMemory struct {
	*pmemtest.Sim
	name []byte

	mu   sync.Mutex
	here bool
}

func (w *stackMemory) Persist(off, n int) error {
	return w.PersistRanges([]region.Range{{Off: off, N: n}})
}

func (w *stackMemory) PersistRanges(rs []region.Range) error {
	stack := make([]byte, 16<<10)
	stack = stack[:runtime.Stack(stack, false)]
	w.mu.Lock()
	w.here = bytes.Contains(stack, w.name)
	w.mu.Unlock()
	return w.Sim.PersistRanges(rs)
}

func (w *stackMemory) last() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.here
}

// An append that is alone, and that its caller does not give up, is executed by the caller. One
// that may be given up, or is only begun, is not.
func TestLocalHere(t *testing.T) {
	mem := &stackMemory{Sim: pmemtest.NewSim(20480+4096, nil), name: []byte("TestLocalHere")}
	l, p := openLocal(t, mem)
	for range 3 {
		if err := l.loc.drain(t.Context()); err != nil {
			t.Fatal(err)
		}
		if _, err := p.Append(context.Background(), []byte("stays")); err != nil || !mem.last() {
			t.Error("executed by another:", err)
		}
		if _, err := p.Append(t.Context(), []byte("may leave")); err != nil || mem.last() {
			t.Error("executed by a caller that may give up:", err)
		}
		e, err := p.Begin([]byte("begun"))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := e.Wait(context.Background()); err != nil || mem.last() {
			t.Error("executed by Begin:", err)
		}
	}
	for i := range uint64(9) {
		r, err := l.Next(t.Context())
		if want := [...]string{"stays", "may leave", "begun"}[i%3]; err != nil || r.Seq != i+1 || string(r.Payload) != want {
			t.Fatalf("%+v, %v, want %q", r, err, want)
		}
	}
}

// TestLocalFailsFirst: an append that comes between the failure of the memory and the end of the session ends with the
// error of the memory. Nobody would wake it otherwise.
func TestLocalFailsFirst(t *testing.T) {
	_, p := openLocal(t, pmemtest.NewSim(1<<16, nil))
	p.mu.Lock()
	s := p.link.(*local)
	p.mu.Unlock()
	s.end(syscall.EIO)
	ctx, stop := context.WithTimeout(t.Context(), 20*time.Second)
	defer stop()
	if _, err := p.Append(ctx, []byte("never")); !errors.Is(err, syscall.EIO) {
		t.Errorf("%v, want EIO", err)
	}
}
