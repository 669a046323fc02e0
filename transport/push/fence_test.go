package push_test

import (
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/stag-rdma/stag/rdmap/region"
	"github.com/stag-rdma/stag/rdmap/region/pmem/pmemtest"
	"github.com/stag-rdma/stag/transport/commitlog"
	"github.com/stag-rdma/stag/transport/push"
)

// blocking is memory whose flushes wait when told to.
type blocking struct {
	*pmemtest.Sim
	mu      sync.Mutex
	stop    chan struct{} // flushes wait for it, if not nil
	waiting chan struct{}
	fault   error
}

func (b *blocking) sim() *pmemtest.Sim { return b.Sim }

func (b *blocking) block() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.stop, b.waiting = make(chan struct{}), make(chan struct{}, 64)
}

func (b *blocking) release() {
	b.mu.Lock()
	defer b.mu.Unlock()
	close(b.stop)
	b.stop = nil
}

func (b *blocking) fail(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.fault = err
}

func (b *blocking) Persist(off, n int) error {
	return b.PersistRanges([]region.Range{{Off: off, N: n}})
}

func (b *blocking) PersistRanges(rs []region.Range) error {
	b.mu.Lock()
	stop, waiting, fault := b.stop, b.waiting, b.fault
	b.mu.Unlock()
	if fault != nil {
		return fault
	}
	if stop != nil && rs[0].N > 0 {
		waiting <- struct{}{}
		<-stop
	}
	return b.Sim.PersistRanges(rs)
}

// blockingStore makes logs of blocking memory, and tells the last.
func blockingStore() (*memStore, func() *blocking) {
	store := newMemStore()
	var last *blocking
	store.wrap = func(s *pmemtest.Sim) region.Memory { last = &blocking{Sim: s}; return last }
	return store, func() *blocking { return last }
}

// A second OPEN by the owner while the first session has one append running and others
// queued: what runs is waited for, nothing queued is executed afterwards, the first
// instance is told and does not fence in return. On both rungs.
func TestFence(t *testing.T) {
	t.Parallel()
	for _, best := range []push.Rung{push.Native, push.Append} {
		t.Run(best.String(), func(t *testing.T) {
			store, mem := blockingStore()
			w := start(t, &push.Server{Store: store, Limits: push.Limits{FenceTime: 20 * time.Millisecond, AppendTime: time.Hour}})
			secret := push.NewSecret()
			first := w.dial("log", &push.Config{
				Best: best, Secret: secret,
				Producer: &commitlog.ProducerOptions{InFlight: 4, Batch: 1},
			})
			appended(t, first, commitlog.Persistent, 1, "before")
			mem().block()
			var pending []*commitlog.Pending
			for _, s := range []string{"one", "two", "three"} {
				e := must(first.Begin([]byte(s)))(t)
				pending = append(pending, e)
			}
			<-mem().waiting // the flush of "one" runs

			if r := ask(w.ps, "127.0.0.1:1", openArgs{Name: "log", Secret: secret, Instance: key{2}}); r.Status != push.StatusBusy {
				t.Fatal("a session while the old one is flushing:", r.Status)
			}
			mem().release()
			second := w.dial("log", &push.Config{Best: best, Secret: secret})
			r := must(second.Append(t.Context(), []byte("after")))(t)
			for _, e := range pending {
				if _, err := e.Wait(t.Context()); !errors.Is(err, commitlog.ErrClosed) {
					t.Error("an append of the fenced instance:", err)
				}
			}
			is(t, first.Err(), push.StatusFenced)
			if _, err := first.Append(t.Context(), nil); !errors.Is(err, push.StatusFenced) {
				t.Error(err)
			}
			// Of the three, the running one may have survived, but none after it.
			switch want := []string{"before", "one", "after"}; r.Seq {
			case 2:
				w.take("log", 1, "before", "after")
			case 3:
				w.take("log", 1, want...)
			default:
				t.Errorf("record %d", r.Seq)
			}
		})
	}
}

// The same instance may open again at any time: it fences itself.
func TestResume(t *testing.T) {
	w := start(t, &push.Server{})
	secret := push.NewSecret()
	s := w.dial("log", &push.Config{Secret: secret})
	_ = s.Close(t.Context())
	a := openArgs{Name: "log", Secret: secret, Instance: key{1}}
	for _, step := range []struct {
		instance key
		resume   bool
		want     push.Status
	}{
		{key{1}, true, push.StatusFenced}, // s was the last
		{key{1}, false, push.StatusOK},
		{key{1}, true, push.StatusOK},
		{key{2}, false, push.StatusOK},
		{key{1}, true, push.StatusFenced},
		{key{2}, true, push.StatusOK},
	} {
		a.Instance, a.Resume = step.instance, step.resume
		if r := ask(w.ps, "127.0.0.1:1", a); r.Status != step.want {
			t.Errorf("%v resume=%v: %v, want %v", step.instance[0], step.resume, r.Status, step.want)
		}
	}
}

// The memory fails: nothing is acknowledged anymore, the session ends for good with the
// reason, and so does the log, on both rungs.
func TestMemoryFails(t *testing.T) {
	for _, best := range []push.Rung{push.Native, push.Append} {
		t.Run(best.String(), func(t *testing.T) {
			store, mem := blockingStore()
			w := start(t, &push.Server{Store: store, Limits: push.Limits{AppendTime: time.Hour}})
			s := w.dial("log", &push.Config{Best: best})
			appended(t, s, commitlog.Persistent, 1, "one")
			broken := errors.New("medium error")
			mem().fail(broken)
			_, err := s.Append(t.Context(), []byte("two"))
			is(t, err, push.StatusLost)
			is(t, s.Err(), push.StatusLost)
			l := w.ps.Log("log")
			if _, err := l.Next(t.Context()); err == nil {
				_, err = l.Next(t.Context())
				if !errors.Is(err, broken) {
					t.Error(err)
				}
			} else if !errors.Is(err, broken) {
				t.Error(err)
			}
			if w.ps.Stats().Lost != 1 {
				t.Errorf("%+v", w.ps.Stats())
			}
		})
	}
}
