package push_test

import (
	"errors"
	"testing"
	"time"

	"github.com/stag-rdma/stag/rdmap/region/pmem"
	"github.com/stag-rdma/stag/transport/commitlog"
	"github.com/stag-rdma/stag/transport/push"
)

// A second OPEN by the owner while the first session has one append running and others
// queued: what runs is waited for, nothing queued is executed afterwards, the first
// instance is told and does not fence in return. On both rungs.
func TestFence(t *testing.T) {
	t.Parallel()
	for _, best := range []push.Rung{push.Native, push.Append} {
		t.Run(best.String(), func(t *testing.T) {
			store, f := faultyStore()
			w := start(t, &push.Server{Store: store, Limits: push.Limits{}.Times(20*time.Millisecond, time.Hour)})
			secret := push.NewSecret()
			first := w.dial("log", &push.Config{Best: best, Secret: secret})
			appended(t, first, commitlog.Persistent, 1, "before")
			entered, release := f.Hang(pmem.OpPersist)
			var pending []*commitlog.Pending
			for _, s := range []string{"one", "two", "three"} {
				e := must(first.Begin([]byte(s)))(t)
				if pending = append(pending, e); s == "one" {
					<-entered // its flush runs
				}
			}
			if r := ask(w.ps, "127.0.0.1:1", openArgs{Name: "log", Secret: secret, Instance: key{2}}); r.Status != push.StatusBusy {
				t.Fatal("a session while the old one is flushing:", r.Status)
			}
			release()
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

// The memory fails: nothing is acknowledged anymore, the session ends for good with the
// reason, and so does the log, on both rungs.
func TestMemoryFails(t *testing.T) {
	for _, best := range []push.Rung{push.Native, push.Append} {
		t.Run(best.String(), func(t *testing.T) {
			store, f := faultyStore()
			w := start(t, &push.Server{Store: store, Limits: push.Limits{}.Times(0, time.Hour)})
			s := w.dial("log", &push.Config{Best: best})
			appended(t, s, commitlog.Persistent, 1, "one")
			broken := errors.New("medium error")
			f.Fail(pmem.OpPersist, broken)
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
