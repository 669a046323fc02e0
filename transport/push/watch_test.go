package push

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stag-rdma/stag/rdmap/region"
	"github.com/stag-rdma/stag/transport/commitlog"
)

// seen records what a Server has told the watcher of its sessions.
type seen struct {
	id    SessionID
	again bool
	tail  uint64
}

// TestBegan: who watches hears of every session before its client does, and whether the same
// instance continues; also when a session before it could not be ended at once.
func TestBegan(t *testing.T) {
	store, mem := blockingStore()
	var all []seen
	refuse := false
	ps := &Server{
		Store: store, Limits: Limits{FenceTime: 10 * time.Millisecond},
		Began: func(l *Log, id SessionID, again bool) bool {
			all = append(all, seen{id, again, l.Tail()})
			return !refuse
		},
	}
	w := start(t, ps)
	secret := NewSecret()
	s := w.dial("log", &Config{Secret: secret, Best: Append})
	appended(t, s, commitlog.Persistent, 1, "one")
	a := openArgs{Name: "log", Secret: secret, Instance: s.instance, Resume: true}
	begun := func(a openArgs) openRes { // a busy machine may take longer than FenceTime
		for {
			if r := ask(ps, "127.0.0.1:1", a); r.Status != StatusBusy {
				return r
			}
		}
	}
	if r := begun(a); r.Status != StatusOK || SessionID(r.Opened.Session) != all[len(all)-1].id {
		t.Fatal(r.Status, all)
	}
	again := w.dial("log", &Config{Secret: secret, Best: Append})
	mem().block()
	if _, err := again.Begin([]byte("two")); err != nil {
		t.Fatal(err)
	}
	<-mem().waiting
	b := openArgs{Name: "log", Secret: secret, Instance: key{9}}
	if r := ask(ps, "127.0.0.1:1", b); r.Status != StatusBusy {
		t.Fatal(r.Status)
	}
	n := len(all)
	mem().release()
	if r := begun(b); r.Status != StatusOK {
		t.Fatal(r.Status)
	}
	if last := all[n]; last.again || last.tail <= all[0].tail {
		t.Errorf("a new instance, at the second try: %+v", last)
	}
	if all[0].again || !all[1].again {
		t.Errorf("%+v", all)
	}
	refuse = true
	if r := begun(b); r.Status != StatusLost {
		t.Error("refused:", r.Status)
	}
}

// TestFenceForGood: a session that the server ends is over for its instance, resumed or not
// at the time, and keeps what was acknowledged; a new instance may begin. Who has not begun
// last is not touched.
func TestFenceForGood(t *testing.T) {
	t.Parallel()
	for _, best := range []Rung{Native, Append} {
		t.Run(best.String(), func(t *testing.T) {
			w := start(t, &Server{})
			secret := NewSecret()
			s := w.dial("log", &Config{Best: best, Secret: secret})
			appended(t, s, commitlog.Persistent, 1, "one")
			l, err := w.ps.Log("log")
			if err != nil {
				t.Fatal(err)
			}
			never := func() { t.Error("over is called") }
			if err := l.Fence(t.Context(), SessionID{1}, never); !errors.Is(err, ErrNotLast) {
				t.Error(err)
			}
			appended(t, s, commitlog.Persistent, 2, "two")
			before, over := l.Tail(), 0
			if err := l.Fence(t.Context(), s.ID(), func() { over++ }); err != nil || over != 1 || l.Tail() != before {
				t.Error(err, over, l.Tail(), before)
			}
			_, err = s.Append(t.Context(), []byte("late"))
			is(t, err, StatusFenced)
			second := w.dial("log", &Config{Best: best, Secret: secret})
			appended(t, second, commitlog.Persistent, 3, "three")
			w.take("log", 1, "one", "two", "three")
		})
	}
}

// TestFencePinned: over is not called while something of the session runs.
func TestFencePinned(t *testing.T) {
	store, mem := blockingStore()
	w := start(t, &Server{Store: store, Limits: Limits{AppendTime: time.Hour}})
	s := w.dial("log", &Config{Best: Append})
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
	var ended []SessionID
	w := start(t, &Server{Ended: func(_ *Log, id SessionID) { ended = append(ended, id) }})
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
		w := start(t, &Server{Store: store, Forgetful: forgetful})
		secret := NewSecret()
		s := w.dial("log", &Config{Secret: secret})
		a := openArgs{Name: "log", Secret: secret, Instance: s.instance, Resume: true}
		if r := ask(w.ps, "127.0.0.1:1", a); r.Status != StatusOK {
			t.Error("before:", r.Status)
		}
		_ = s.Close(t.Context()) // it looks for its server as long as it is open
		w.stop()
		w = start(t, &Server{Store: store.crashed(), Forgetful: forgetful})
		want := map[bool]Status{false: StatusOK, true: StatusFenced}[forgetful]
		if r := ask(w.ps, "127.0.0.1:1", a); r.Status != want {
			t.Errorf("forgetful %v: %v", forgetful, r.Status)
		}
		a.Resume = false
		if r := ask(w.ps, "127.0.0.1:1", a); r.Status != StatusOK {
			t.Errorf("forgetful %v, not resumed: %v", forgetful, r.Status)
		}
	}
}
