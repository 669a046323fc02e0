package push_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stag-rdma/stag/transport/commitlog"
	"github.com/stag-rdma/stag/transport/push"
)

// A log that nobody releases is full for its owner alone, at once. Only its secret releases records, and only those that
// are there. Then there is room, at the next append, whoever has released them; and a crash brings nothing of it back.
func TestRelease(t *testing.T) {
	t.Parallel()
	for _, best := range []push.Rung{push.Native, push.Append} {
		t.Run(best.String(), func(t *testing.T) {
			t.Parallel()
			ctx, store := t.Context(), newMemStore()
			w := start(t, &push.Server{Store: store, Limits: push.Limits{Capacity: 4096}})
			secret := push.NewSecret()
			// Whoever waits for room here waits for ever.
			cfg := &push.Config{Best: best, Secret: secret, Producer: &commitlog.ProducerOptions{Silence: -1}}
			s, other := w.dial("log", cfg), w.dial("other", &push.Config{Best: best})
			last := fill(t, s)
			if e, err := s.Begin(make([]byte, 400)); !errors.Is(err, push.StatusFull) {
				t.Fatal(e, err)
			}
			for i := range uint64(20) {
				appended(t, other, commitlog.Persistent, i+1, "beside")
				noErr(t, other.Reader(0).Release(ctx, i+1))
			}

			owner := w.reader("log", secret, nil)
			is(t, w.reader("log", push.Secret{1}, nil).Release(ctx, last), push.StatusRefused)
			is(t, w.reader("none", secret, nil).Release(ctx, last), push.StatusRefused)
			for _, beyond := range []uint64{last + 1, 1<<64 - 1} {
				is(t, owner.Release(ctx, beyond), push.StatusGap)
			}
			_, err := s.Append(ctx, make([]byte, 400))
			is(t, err, push.StatusFull) // nothing of that has released anything
			for _, seq := range []uint64{1, 2, 1, 2, 0} {
				if err := owner.Release(ctx, seq); err != nil {
					t.Fatal(seq, err)
				}
			}
			appended(t, s, commitlog.Persistent, last+1, "room")
			_ = s.Close(ctx) // they would say so to a server that is gone
			_ = other.Close(ctx)
			w.stop()

			w = start(t, &push.Server{Store: store.crashed()})
			owner = w.reader("log", secret, nil)
			if err := owner.Release(ctx, 1); err != nil {
				t.Error("again, after a crash:", err)
			}
			for seq := uint64(3); seq <= last+1; seq++ {
				if rec, err := owner.TryNext(ctx); err != nil || rec == nil || rec.Seq != seq {
					t.Fatal(seq, rec, err)
				}
			}
			if err := owner.Release(ctx, last+1); err != nil {
				t.Error(err)
			}
			w.stop()

			w = start(t, &push.Server{Store: w.ps.Store.(*memStore).crashed()})
			owner = w.reader("log", secret, nil)
			if rec, err := owner.TryNext(ctx); rec != nil || err != nil {
				t.Error("released, and there again:", rec, err)
			}
			if err := owner.Release(ctx, last+1); err != nil {
				t.Error("an empty log, again:", err)
			}
			is(t, owner.Release(ctx, last+2), push.StatusGap)
		})
	}
}

// fill appends until the log is full, and returns the number of the last record.
func fill(t *testing.T, s *push.Session) (last uint64) {
	t.Helper()
	for {
		r, err := s.Append(t.Context(), make([]byte, 400))
		if e, ok := errors.AsType[*push.Error](err); ok && e.Op == "append" && errors.Is(err, push.StatusFull) && last > 2 {
			return last
		}
		if err != nil || r.Seq != last+1 {
			t.Fatalf("%+v after %d: %v", r, last, err)
		}
		last = r.Seq
	}
}

// An APPEND with more records than there is room for: those that fit are in the log, and the same call appends the
// others when there is room, each once.
func TestAppendFull(t *testing.T) {
	ctx, ps := t.Context(), &push.Server{Store: newMemStore(), Limits: push.Limits{Capacity: 4096}}
	defer ps.Close(context.Background())
	secret := push.NewSecret()
	a := appendArgs{Session: ask(ps, "192.0.2.1:1", openArgs{Name: "log", Secret: secret, Instance: key{1}}).Opened.Session, Seq: 1}
	for i := range 12 {
		a.Records = append(a.Records, fmt.Appendf(nil, "%0400d", i))
	}
	release := func(seq uint64) push.Status {
		r := releaseArgs{Name: "log", Secret: secret, Seq: seq}
		return push.Status(called(ctx, ps, "192.0.2.1:1", push.Program, procRelease, push.Octets(&r)).Uint32())
	}
	for range 2 {
		if st := appendRecords(ctx, ps, &a); st != push.StatusFull {
			t.Fatal(st)
		}
	}
	if st := release(6); st != push.StatusOK {
		t.Fatal(st)
	}
	if st := appendRecords(ctx, ps, &a); st != push.StatusOK {
		t.Fatal(st)
	}
	if st := release(13); st != push.StatusGap {
		t.Error(st)
	}
	l := ps.Log("log")
	for i := 6; i < 12; i++ {
		if r, err := l.Read(ctx, uint64(i+1)); err != nil || string(r.Payload) != fmt.Sprintf("%0400d", i) {
			t.Errorf("record %d: %v %v", i+1, r, err)
		}
	}

	// A release between OPEN and the first APPEND, of which no producer is told.
	a.Seq = 13
	if st := appendRecords(ctx, ps, &a); st != push.StatusFull {
		t.Fatal(st)
	}
	r := ask(ps, "192.0.2.1:1", openArgs{Name: "log", Secret: secret, Instance: key{2}})
	if st := release(r.Opened.Answer.NextSeq - 1); st != push.StatusOK {
		t.Fatal(st)
	}
	b := appendArgs{Session: r.Opened.Session, Seq: r.Opened.Answer.NextSeq, Records: a.Records[:6]}
	if st := appendRecords(ctx, ps, &b); st != push.StatusOK {
		t.Error(st)
	}
}
