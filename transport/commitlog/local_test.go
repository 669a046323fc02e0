package commitlog

import (
	"bytes"
	"context"
	"errors"
	"runtime"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stag-rdma/stag/rdmap/region"
	"github.com/stag-rdma/stag/rdmap/region/pmem"
	"github.com/stag-rdma/stag/rdmap/region/pmem/pmemtest"
)

// stackMemory is a memory that knows whether a test function's own goroutine was the last to
// persist it.
type stackMemory struct {
	*pmem.Sim
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
	mem := &stackMemory{Sim: sim(4096), name: []byte("TestLocalHere")}
	l := newTestLog(t, mem, WAL)
	p := newTestProducer(t, nil)
	if err := l.Local(t.Context(), p); err != nil {
		t.Fatal(err)
	}
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
	take(t, l, 1, "stays", "may leave", "begun", "stays", "may leave", "begun", "stays", "may leave", "begun")
}

// A session without a connection ends as one with: what is queued does not begin anymore, and
// the next session waits for what is running, as long as its context lets it.
func TestLocalFence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := &blocking{Sim: sim(4096)}
		l := newTestLog(t, mem, WAL)
		p := newTestProducer(t, &ProducerOptions{InFlight: 4, Batch: 1})
		if err := l.Local(t.Context(), p); err != nil {
			t.Fatal(err)
		}
		mem.block()
		var pending []*Pending
		for _, s := range []string{"one", "two", "three"} {
			e, err := p.Begin([]byte(s))
			if err != nil {
				t.Fatal(err)
			}
			pending = append(pending, e)
		}
		<-mem.waiting // the flush of "one" runs
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		if err := l.Local(gone, p); !errors.Is(err, region.ErrPinned) {
			t.Fatal("a session while the old one is flushing:", err)
		}
		opened := make(chan error)
		go func() { opened <- l.Local(t.Context(), p) }()
		synctest.Wait()
		select {
		case err := <-opened:
			t.Fatal("it did not wait:", err)
		default:
		}
		mem.release()
		if err := <-opened; err != nil {
			t.Fatal(err)
		}
		for i, e := range pending {
			if r, err := e.Wait(t.Context()); err != nil || r.Seq != uint64(i+1) {
				t.Error(r, err)
			}
		}
		take(t, l, 1, "one", "two", "three")
	})
}

// A memory that hangs keeps who stays, and nobody else: an append behind it can be given
// up, and is not in the log then, and one more is left to another.
func TestLocalHangs(t *testing.T) {
	f := pmemtest.NewFaults()
	l := newTestLog(t, pmem.NewSim(20480+4096, &pmem.SimOptions{Hooks: f.Hooks()}), WAL)
	p := newTestProducer(t, nil)
	if err := l.Local(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	entered, release := f.Hang(pmemtest.Persist)
	stays := make(chan error)
	go func() {
		_, err := p.Append(context.Background(), []byte("stays"))
		stays <- err
	}()
	<-entered
	e, err := p.Begin([]byte("given up"))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := e.Wait(ctx); !errors.Is(err, context.Canceled) || errors.Is(err, ErrInDoubt) {
		t.Error(err)
	}
	next, err := p.Begin([]byte("next"))
	if err != nil {
		t.Fatal(err)
	}
	behind, releaseNext := f.Hang(pmemtest.Persist)
	release()
	if err := <-stays; err != nil {
		t.Error(err)
	}
	<-behind // not who stayed: that append is over
	releaseNext()
	if _, err := next.Wait(t.Context()); err != nil {
		t.Error(err)
	}
	take(t, l, 1, "stays", "next")
}

// TestLocalFailsFirst: an append that comes between the failure of the memory and the end of the session ends with the
// error of the memory. Nobody would wake it otherwise.
func TestLocalFailsFirst(t *testing.T) {
	l, _, _ := fileLog(t, pmem.File, pmemtest.NewFaults())
	p := newTestProducer(t, nil)
	if err := l.Local(t.Context(), p); err != nil {
		t.Fatal(err)
	}
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

// The memory under a producer of the same process fails: appends end with its error, those in progress and later ones.
func TestLocalMemoryFails(t *testing.T) {
	f := pmemtest.NewFaults()
	l, _, _ := fileLog(t, pmem.File, f)
	p := newTestProducer(t, nil)
	if err := l.Local(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Append(context.Background(), []byte("one")); err != nil {
		t.Fatal(err)
	}
	f.FailOnce(pmemtest.Datasync, syscall.EIO)
	var pending []*Pending
	for range 3 {
		e, err := p.Begin([]byte("never"))
		if err != nil && !errors.Is(err, syscall.EIO) {
			t.Fatal(err)
		}
		if err == nil {
			pending = append(pending, e)
		}
	}
	for _, e := range pending {
		if _, err := e.Wait(t.Context()); !errors.Is(err, syscall.EIO) || !errors.Is(err, pmem.ErrFailed) {
			t.Error(err)
		}
	}
	if _, err := p.Append(context.Background(), []byte("never")); !errors.Is(err, syscall.EIO) {
		t.Error(err)
	}
	if err := l.Local(t.Context(), newTestProducer(t, nil)); !errors.Is(err, syscall.EIO) {
		t.Error(err)
	}
}
