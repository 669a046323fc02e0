package push_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stag-rdma/stag/rdmap/region"
	"github.com/stag-rdma/stag/transport/commitlog"
	"github.com/stag-rdma/stag/transport/push"
)

// seen records what a Server has told the watcher of its sessions.
type seen struct {
	id    push.SessionID
	again bool
	tail  uint64
}

// dialInstance is dial, and returns the instance too.
func (w *world) dialInstance(name string, cfg *push.Config) (*push.Session, key) {
	w.t.Helper()
	l := &listening{Caller: w.caller()}
	s, err := w.dialBy(l, name, cfg)
	if err != nil {
		w.t.Fatal(err)
	}
	a, _ := l.last()
	return s, a.Instance
}

// TestBegan: who watches hears of every session before its client does, and whether the same
// instance continues; also when a session before it could not be ended at once.
func TestBegan(t *testing.T) {
	store, mem := blockingStore()
	var all []seen
	refuse := false
	ps := &push.Server{
		Store: store, Limits: push.Limits{FenceTime: 10 * time.Millisecond},
		Began: func(l *push.Log, id push.SessionID, again bool) bool {
			all = append(all, seen{id, again, l.Tail()})
			return !refuse
		},
	}
	w := start(t, ps)
	secret := push.NewSecret()
	s, instance := w.dialInstance("log", &push.Config{Secret: secret, Best: push.Append})
	appended(t, s, commitlog.Persistent, 1, "one")
	a := openArgs{Name: "log", Secret: secret, Instance: instance, Resume: true}
	begun := func(a openArgs) openRes { // a busy machine may take longer than FenceTime
		for {
			if r := ask(ps, "127.0.0.1:1", a); r.Status != push.StatusBusy {
				return r
			}
		}
	}
	if r := begun(a); r.Status != push.StatusOK || push.SessionID(r.Opened.Session) != all[len(all)-1].id {
		t.Fatal(r.Status, all)
	}
	again := w.dial("log", &push.Config{Secret: secret, Best: push.Append})
	mem().block()
	if _, err := again.Begin([]byte("two")); err != nil {
		t.Fatal(err)
	}
	<-mem().waiting
	b := openArgs{Name: "log", Secret: secret, Instance: key{9}}
	if r := ask(ps, "127.0.0.1:1", b); r.Status != push.StatusBusy {
		t.Fatal(r.Status)
	}
	n := len(all)
	mem().release()
	if r := begun(b); r.Status != push.StatusOK {
		t.Fatal(r.Status)
	}
	if last := all[n]; last.again || last.tail <= all[0].tail {
		t.Errorf("a new instance, at the second try: %+v", last)
	}
	if all[0].again || !all[1].again {
		t.Errorf("%+v", all)
	}
	refuse = true
	if r := begun(b); r.Status != push.StatusLost {
		t.Error("refused:", r.Status)
	}
}

// TestFenceForGood: a session that the server ends is over for its instance, resumed or not
// at the time, and keeps what was acknowledged; a new instance may begin. Who has not begun
// last is not touched.
func TestFenceForGood(t *testing.T) {
	t.Parallel()
	for _, best := range []push.Rung{push.Native, push.Append} {
		t.Run(best.String(), func(t *testing.T) {
			w := start(t, &push.Server{})
			secret := push.NewSecret()
			s := w.dial("log", &push.Config{Best: best, Secret: secret})
			appended(t, s, commitlog.Persistent, 1, "one")
			l, err := w.ps.Log("log")
			if err != nil {
				t.Fatal(err)
			}
			never := func() { t.Error("over is called") }
			if err := l.Fence(t.Context(), push.SessionID{1}, never); !errors.Is(err, push.ErrNotLast) {
				t.Error(err)
			}
			appended(t, s, commitlog.Persistent, 2, "two")
			before, over := l.Tail(), 0
			if err := l.Fence(t.Context(), s.ID(), func() { over++ }); err != nil || over != 1 || l.Tail() != before {
				t.Error(err, over, l.Tail(), before)
			}
			_, err = s.Append(t.Context(), []byte("late"))
			is(t, err, push.StatusFenced)
			second := w.dial("log", &push.Config{Best: best, Secret: secret})
			appended(t, second, commitlog.Persistent, 3, "three")
			w.take("log", 1, "one", "two", "three")
		})
	}
}

// TestFencePinned: over is not called while something of the session runs.
func TestFencePinned(t *testing.T) {
	store, mem := blockingStore()
	w := start(t, &push.Server{Store: store, Limits: push.Limits{AppendTime: time.Hour}})
	s := w.dial("log", &push.Config{Best: push.Append})
	mem().block()
	if _, err := s.Begin([]byte("one")); err != nil {
		t.Fatal(err)
	}
	<-mem().waiting
	l, err := w.ps.Log("log")
	if err != nil {
		t.Fatal(err)
	}
	id := s.ID()
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	err = l.Fence(ctx, id, func() { t.Error("over is called while an append runs") })
	if !errors.Is(err, region.ErrPinned) && !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
	mem().release()
	over := false
	if err := l.Fence(t.Context(), id, func() { over = true }); err != nil || !over {
		t.Error(err, over)
	}
}

// TestEnded: the watcher is told about a client that closes its session.
func TestEnded(t *testing.T) {
	var ended []push.SessionID
	w := start(t, &push.Server{Ended: func(_ *push.Log, id push.SessionID) { ended = append(ended, id) }})
	s := w.dial("log", nil)
	id := s.ID()
	if err := s.Close(t.Context()); err != nil || len(ended) != 1 || ended[0] != id {
		t.Errorf("%v, %x; want %x", err, ended, id)
	}
}

// TestForgetful: after a restart of such a server nobody resumes; of another one, everybody.
func TestForgetful(t *testing.T) {
	t.Parallel()
	for _, forgetful := range []bool{false, true} {
		store := newMemStore()
		w := start(t, &push.Server{Store: store, Forgetful: forgetful})
		secret := push.NewSecret()
		s, instance := w.dialInstance("log", &push.Config{Secret: secret})
		a := openArgs{Name: "log", Secret: secret, Instance: instance, Resume: true}
		if r := ask(w.ps, "127.0.0.1:1", a); r.Status != push.StatusOK {
			t.Error("before:", r.Status)
		}
		_ = s.Close(t.Context()) // it looks for its server as long as it is open
		w.stop()
		w = start(t, &push.Server{Store: store.crashed(), Forgetful: forgetful})
		want := map[bool]push.Status{false: push.StatusOK, true: push.StatusFenced}[forgetful]
		if r := ask(w.ps, "127.0.0.1:1", a); r.Status != want {
			t.Errorf("forgetful %v: %v", forgetful, r.Status)
		}
		a.Resume = false
		if r := ask(w.ps, "127.0.0.1:1", a); r.Status != push.StatusOK {
			t.Errorf("forgetful %v, not resumed: %v", forgetful, r.Status)
		}
	}
}
