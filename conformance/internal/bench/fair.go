package bench

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/stag-rdma/stag/transport/commitlog"
)

const (
	fairProducers = 8
	floodAppends  = 64 // under way at once, of the flooding producer
)

// fairShare runs eight producers, each with its own log at one consumer, each appending as soon as its
// previous append is durable, and returns the appends per second of the slowest of the last seven. With
// flood the first one keeps floodAppends in progress. A single goroutine begins all of these: with a
// goroutine per append they would fill the run queue of this process, but it is the consumer that should be
// fair.
func fairShare(addr string, flood bool, dur time.Duration) (float64, error) {
	var ps [fairProducers]*commitlog.Producer
	for i := range ps {
		p, stop, err := dialLog(addr, 0)
		if err != nil {
			return 0, err
		}
		defer stop()
		ps[i] = p
	}
	var (
		mu     sync.Mutex
		wg     sync.WaitGroup
		counts [fairProducers]float64
		first  error
	)
	start := time.Now()
	for i, p := range ps {
		run := appendFor
		if i == 0 && flood {
			run = floodFor
		}
		wg.Go(func() {
			n, err := run(p, start, dur)
			mu.Lock()
			defer mu.Unlock()
			if counts[i] = n; first == nil {
				first = err
			}
		})
	}
	wg.Wait()
	return slices.Min(counts[1:]) / time.Since(start).Seconds(), first
}

func appendFor(p *commitlog.Producer, start time.Time, dur time.Duration) (n float64, err error) {
	payload := make([]byte, commitPayload)
	for err == nil && time.Since(start) < dur {
		_, err = p.Append(context.Background(), payload)
		n++
	}
	return n, err
}

// floodFor is appendFor with floodAppends in progress.
func floodFor(p *commitlog.Producer, start time.Time, dur time.Duration) (n float64, err error) {
	payload := make([]byte, commitPayload)
	var under []*commitlog.Pending
	for {
		for len(under) < floodAppends && time.Since(start) < dur {
			e, err := p.Begin(payload)
			if err != nil {
				return n, err
			}
			under = append(under, e)
		}
		if len(under) == 0 {
			return n, nil
		}
		if _, err := under[0].Wait(context.Background()); err != nil {
			return n, err
		}
		under = under[1:]
		n++
	}
}
