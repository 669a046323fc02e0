package push

import (
	"sync"
	"time"
)

// rate is a token bucket with a number of units per second, which is also the largest burst. It is
// safe for concurrent use.
type rate struct {
	perSecond float64

	mu   sync.Mutex
	debt float64 // units taken and not yet earned
	last time.Time
}

// settle accounts for the time that has passed. The caller holds r.mu.
func (r *rate) settle(now time.Time) {
	if !r.last.IsZero() {
		r.debt = max(0, r.debt-now.Sub(r.last).Seconds()*r.perSecond)
	}
	r.last = now
}

// try takes one unit if there is one.
func (r *rate) try(now time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.settle(now)
	if r.debt+1 > r.perSecond {
		return false
	}
	r.debt++
	return true
}

// idle reports whether there is no debt, so that the bucket can be forgotten.
func (r *rate) idle(now time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.settle(now)
	return r.debt == 0
}

// maxRates limits the addresses with their own bucket; the others share one.
const maxRates = 4096

// rates are the buckets of addresses. It is safe for concurrent use.
type rates struct {
	perSecond float64

	mu     sync.Mutex
	byHost map[string]*rate
	swept  time.Time // when idle buckets were last looked for
	others rate
}

func newRates(perSecond float64) *rates {
	return &rates{perSecond: perSecond, byHost: make(map[string]*rate), others: rate{perSecond: perSecond}}
}

// try takes one unit of host.
func (r *rates) try(host string, now time.Time) bool { return r.of(host, now).try(now) }

func (r *rates) of(host string, now time.Time) *rate {
	r.mu.Lock()
	defer r.mu.Unlock()
	b := r.byHost[host]
	if b != nil {
		return b
	}
	if len(r.byHost) >= maxRates && now.Sub(r.swept) >= time.Second {
		r.swept = now
		for h, b := range r.byHost {
			if b.idle(now) {
				delete(r.byHost, h)
			}
		}
	}
	if len(r.byHost) >= maxRates {
		return &r.others
	}
	b = &rate{perSecond: r.perSecond}
	r.byHost[host] = b
	return b
}
