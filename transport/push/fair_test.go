package push

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stag-rdma/stag/transport/commitlog"
)

// A client that appends as much as it can, in 32 goroutines and with hashes, has no more than
// others that append one record after the other: each of them has at least 0.7 of an equal share of
// what is acknowledged. What is counted are records, until the slowest of the others has enough.
func TestFloodShare(t *testing.T) {
	const others, enough = 3, 60
	w := start(t, &Server{
		Limits:  Limits{Flushes: 40, Hashed: 1 << 30},
		Consume: func(ctx context.Context, l *Log) { discard(ctx, l) },
	})
	var count [1 + others]atomic.Int64
	ctx, stop := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	run := func(s *Session, i, size int) {
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
	flooder := w.dial("flood", &Config{Producer: one})
	for range 32 {
		run(flooder, 0, 4000)
	}
	for i := range others {
		run(w.dial(string(rune('a'+i)), &Config{Producer: &commitlog.ProducerOptions{Batch: 1}}), 1+i, 100)
	}
	slowest := func() int64 { return min(count[1].Load(), count[2].Load(), count[3].Load()) }
	for slowest() < enough {
		time.Sleep(time.Millisecond)
	}
	total := int64(0)
	for i := range count {
		total += count[i].Load()
	}
	for i := range count[1:] {
		if share := float64(count[1+i].Load()) * float64(len(count)) / float64(total); share < 0.7 {
			t.Errorf("client %d has %.2f of an equal share: %d of %d, the flooder has %d", i, share, count[1+i].Load(), total, count[0].Load())
		}
	}
	stop()
	wg.Wait()
}

// discard consumes the records of a log, 32 at a time: a release costs a flush too.
func discard(ctx context.Context, l *Log) {
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
