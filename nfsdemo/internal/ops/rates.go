package ops

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/stag-rdma/stag/transport/rpc"
)

// How often the counters are kept, and for how long.
const (
	sampleEvery = 5 * time.Second
	sampleTime  = time.Minute
)

// Rate is what happens in a second, on average over some time.
type Rate struct {
	Over      float64 `json:"seconds"` // that time
	Calls     float64 `json:"calls_per_second"`
	Errors    float64 `json:"errors_per_second"`            // of the transport
	Read      float64 `json:"rdma_read_octets_per_second"`  // from clients
	Written   float64 `json:"rdma_write_octets_per_second"` // to clients
	Inline    float64 `json:"inline_octets_per_second"`     // both ways
	Connected float64 `json:"connections_per_second"`
}

// sample is a snapshot of counters.
type sample struct {
	at time.Time
	st rpc.Stats
}

// rates keeps the samples of the last minute.
type rates struct {
	mu  sync.Mutex
	all []sample // oldest first
}

// Sample keeps what stats returns, again and again until ctx ends, for the rates in the report.
func (s *Server) Sample(ctx context.Context, stats func() rpc.Stats) {
	for {
		s.rates.add(sample{time.Now(), stats()})
		select {
		case <-time.After(sampleEvery):
		case <-ctx.Done():
			return
		}
	}
}

func (r *rates) add(s sample) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all = append(r.all, s)
	if len(r.all) > int(sampleTime/sampleEvery) {
		r.all = slices.Delete(r.all, 0, 1)
	}
}

// last returns the rates over the last seconds and over the last minute; fewer if the server is young.
func (r *rates) last(now *rpc.Stats) []Rate {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := []Rate{}
	if n := len(r.all); n > 1 {
		out = append(out, rate(&r.all[n-2], now))
	}
	if len(r.all) > 2 {
		out = append(out, rate(&r.all[0], now))
	}
	return out
}

// rate compares a sample with the counters now.
func rate(s *sample, now *rpc.Stats) Rate {
	d := max(time.Since(s.at).Seconds(), 1e-3)
	per := func(before, after uint64) float64 { return float64(after-before) / d }
	return Rate{
		Over: d, Calls: per(s.st.Calls, now.Calls), Errors: per(s.st.Errors, now.Errors), Connected: per(s.st.Accepted, now.Accepted),
		Read: per(s.st.OctetsRead, now.OctetsRead), Written: per(s.st.OctetsWritten, now.OctetsWritten), Inline: per(s.st.OctetsInline, now.OctetsInline),
	}
}
