package push_test

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stag-rdma/stag/transport/commitlog"
	"github.com/stag-rdma/stag/transport/push"
)

// A client that appends as much as it can, in 32 goroutines and with hashes, has no more than
// others that append one record after the other: each of them has at least 0.7 of an equal share of
// what is acknowledged. What is counted are records, until the slowest of the others has enough.
func TestFloodShare(t *testing.T) {
	const others, enough = 3, 60
	w := start(t, &push.Server{
		Limits:  push.Limits{Flushes: 40, Hashed: 1 << 30},
		Consume: func(ctx context.Context, l *push.Log) { discard(ctx, l) },
	})
	var count [1 + others]atomic.Int64
	ctx, stop := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	run := func(s *push.Session, i, size int) {
		wg.Go(func() {
			for ctx.Err() == nil {
				if _, err := s.Append(ctx, make([]byte, size)); err != nil {
					return
				}
				count[i].Add(1)
			}
		})
	}
	one := &commitlog.ProducerOptions{Batch: 1, InFlight: 64, Verify: true}
	flooder := w.dial("flood", &push.Config{Producer: one})
	for range 32 {
		run(flooder, 0, 4000)
	}
	for i := range others {
		run(w.dial(string(rune('a'+i)), &push.Config{Producer: &commitlog.ProducerOptions{Batch: 1}}), 1+i, 100)
	}
	// A machine that stands still for seconds gives to all what they may save up, and the flooder
	// has it at once: then what comes next counts.
	for try := 1; ; try++ {
		var before, now [1 + others]int64
		for i := range count {
			before[i] = count[i].Load()
		}
		for slowest := int64(0); slowest < enough; time.Sleep(time.Millisecond) {
			for i := range count {
				now[i] = count[i].Load() - before[i]
			}
			slowest = slices.Min(now[1:])
		}
		total := int64(0)
		for _, n := range now {
			total += n
		}
		share := float64(slices.Min(now[1:])) * float64(len(now)) / float64(total)
		if share >= 0.7 {
			break
		}
		t.Logf("try %d: the flooder has %d, the others %v: one has %.2f of an equal share", try, now[0], now[1:], share)
		if try == 5 {
			t.Error("no equal shares")
			break
		}
	}
	stop()
	wg.Wait()
}

// discard consumes the records of a log, 32 at a time: a release costs a flush too.
func discard(ctx context.Context, l *push.Log) {
	for n := 1; ; n++ {
		r, err := l.Next(ctx)
		if err != nil {
			return
		}
		if n%32 == 0 && l.Release(r.Seq) != nil {
			return
		}
	}
}
