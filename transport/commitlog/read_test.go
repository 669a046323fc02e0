package commitlog_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stag-rdma/stag/transport/commitlog"
)

// newLog makes a log in memory and a producer in this process.
func newLog(t *testing.T, capacity int) (*commitlog.Log, *commitlog.Producer) {
	t.Helper()
	return openLocal(t, newTestLog(t, sim(capacity), commitlog.WAL))
}

func openLocal(t *testing.T, l *commitlog.Log) (*commitlog.Log, *commitlog.Producer) {
	t.Helper()
	p := newTestProducer(t, nil)
	noErr(t, l.Local(t.Context(), p))
	return l, p
}

func put(t *testing.T, p *commitlog.Producer, payload string) uint64 {
	t.Helper()
	r := must(p.Append(t.Context(), []byte(payload)))(t)
	return r.Seq
}

// now returns a context that has ended: Read does not wait.
func now() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}

// Whatever was released, and from whatever number on: Read returns what is kept, in order, and stops at the
// octets, through several laps of the ring.
func TestRead(t *testing.T) {
	const capacity = 4096
	l, p := newLog(t, capacity)
	payload := func(n uint64) string { return fmt.Sprintf("%0*d", n*37%200, n) }
	first, next := uint64(1), uint64(1)
	for range 200 {
		for range 5 {
			put(t, p, payload(next))
			if rec, err := l.Next(t.Context()); err != nil || rec.Seq != next {
				t.Fatal(rec, err)
			}
			next++
		}
		if next > 12 {
			first = next - 10
			noErr(t, l.Release(first-1))
		}
		for from := uint64(0); from <= next; from++ {
			for _, octets := range []int{0, 300, capacity} {
				recs, err := l.Read(now(), from, octets)
				want := max(from, first)
				switch {
				case from != 0 && from < first:
					if e, ok := errors.AsType[*commitlog.ReleasedError](err); !ok || e.First != first || e.Seq != from {
						t.Fatalf("from %d of %d to %d: %v", from, first, next, err)
					}
					continue
				case want == next:
					if !errors.Is(err, context.Canceled) || recs != nil {
						t.Fatal(recs, err)
					}
					continue
				case err != nil || len(recs) == 0:
					t.Fatalf("from %d of %d to %d: %v", from, first, next, err)
				}
				for i, r := range recs {
					if r.Seq != want+uint64(i) || string(r.Payload) != payload(r.Seq) || r.Epoch != 1 {
						t.Fatalf("from %d: %+v", from, r)
					}
				}
				last := recs[len(recs)-1]
				end := last.Pos + (28+uint64(len(last.Payload))+63)&^63
				if end-recs[0].Pos > uint64(octets) && len(recs) > 1 || octets == 0 && len(recs) > 1 {
					t.Fatalf("%d records of %d octets", len(recs), octets)
				}
				if octets == capacity && last.Seq != next-1 {
					t.Fatalf("only to %d of %d", last.Seq, next-1)
				}
			}
		}
	}
}

// A reader that waits gets every record while others append and release what it has read.
func TestReadTail(t *testing.T) {
	const records = 2000
	l, p := newLog(t, 8192)
	var wg sync.WaitGroup
	wg.Go(func() {
		for n := range records {
			if _, err := p.Append(t.Context(), fmt.Append(nil, n+1)); err != nil {
				t.Error(err)
				return
			}
		}
	})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for want := uint64(1); want <= records; {
		recs := must(l.Read(ctx, want, 1000))(t)
		for _, r := range recs {
			if r.Seq != want || string(r.Payload) != fmt.Sprint(want) {
				t.Fatalf("%+v, want %d", r, want)
			}
			if rec, err := l.TryNext(); err != nil || rec.Seq != want {
				t.Fatal(rec, err)
			}
			want++
		}
		noErr(t, l.Release(want-1))
	}
	wg.Wait()
	noErr(t, l.Close(ctx))
	if _, err := l.Read(ctx, 0, 1); !errors.Is(err, commitlog.ErrClosed) {
		t.Error(err)
	}
}
