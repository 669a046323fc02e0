package cli

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"
)

// How often a backend is checked, and how long a check may take.
const (
	checkEvery = 10 * time.Second
	checkTime  = 5 * time.Second
)

// health watches a backend of a server: what stands at the path of an export, or the server behind a proxy. It says
// when that is lost, and when it is back.
type health struct {
	what    string                          // the backend, in the log
	check   func(ctx context.Context) error // may hang: the backend may be a disk
	log     *slog.Logger
	every   time.Duration // how often
	changed func()        // nil: nobody needs to know

	soon  chan struct{}
	first chan struct{} // closed after the first check

	mu    sync.Mutex
	err   error
	since time.Time // of the last change; zero: none
}

func newHealth(what string, log *slog.Logger, check func(context.Context) error) *health {
	return &health{what: what, check: check, log: log, every: checkEvery, soon: make(chan struct{}, 1), first: make(chan struct{})}
}

// look has the backend checked now.
func (h *health) look() {
	select {
	case h.soon <- struct{}{}:
	default: // it will be already
	}
}

// watch checks at once, and then as often as every says, until ctx ends. A check that hangs has failed, and is waited for
// before the next one.
func (h *health) watch(ctx context.Context) {
	results, running := make(chan error, 1), false
	for first := true; ; first = false {
		if !running {
			running = true
			go func() { results <- h.try(ctx) }()
		}
		select {
		case err := <-results:
			running = false
			if ctx.Err() == nil {
				h.set(err)
			}
		case <-time.After(checkTime + time.Second):
			h.set(fmt.Errorf("no answer in %v", checkTime))
		case <-ctx.Done():
			select { // the backend may be closed next
			case <-results:
			case <-time.After(checkTime):
			}
		}
		if first {
			close(h.first)
		}
		if ctx.Err() != nil {
			return
		}
		select {
		case <-time.After(h.every):
		case <-h.soon:
		case <-ctx.Done():
			return // a check that hung is not waited for again
		}
	}
}

// try runs one check.
func (h *health) try(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, checkTime)
	defer cancel()
	return h.check(ctx)
}

// set notes the result of a check, and logs a change. A backend is taken to be there at first.
func (h *health) set(err error) {
	h.mu.Lock()
	changed, before := (err == nil) != (h.err == nil), h.since
	h.err = err
	if changed {
		h.since = time.Now()
	}
	h.mu.Unlock()
	if changed && h.changed != nil {
		h.changed()
	}
	switch {
	case !changed:
	case err != nil:
		h.log.Warn("backend lost", "backend", h.what, "error", err)
	default:
		h.log.Info("backend back", "backend", h.what, "after", time.Since(before).Round(time.Millisecond))
	}
}

// lost returns why the backend cannot be used, nil if it can, and since when.
func (h *health) lost() (since time.Time, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.since, h.err
}
