package cli

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// lines is a buffer for many goroutines.
type lines struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func (l *lines) Reset() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.b.Reset()
}

// TestHealth: a backend that fails, hangs and comes back is noticed, and said once each time.
func TestHealth(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		var out lines
		var state atomic.Pointer[func() error]
		is := func(f func() error) { state.Store(&f) }
		is(func() error { return nil })
		h := newHealth("/srv", slog.New(slog.NewTextHandler(&out, nil)), func(context.Context) error { return (*state.Load())() })
		done := make(chan struct{})
		go func() { h.watch(ctx); close(done) }()
		said := func(want string) {
			t.Helper()
			time.Sleep(2 * checkEvery)
			synctest.Wait()
			if got := out.String(); strings.Count(got, "\n") != 1 || !strings.Contains(got, want) {
				t.Errorf("got %q, want one line with %q", got, want)
			}
			out.Reset()
			time.Sleep(3 * checkEvery)
			synctest.Wait()
			if out.String() != "" {
				t.Errorf("said again: %s", &out)
			}
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if _, err := h.lost(); err != nil || out.String() != "" {
			t.Errorf("%v, %s", err, &out)
		}
		is(func() error { return errors.New("input/output error") })
		said(`msg="backend lost" backend=/srv error="input/output error"`)
		is(func() error { return nil })
		said(`msg="backend back" backend=/srv after=`)
		hang := make(chan struct{})
		is(func() error { <-hang; return nil })
		said(`error="no answer in 5s"`)
		if since, err := h.lost(); err == nil || since.IsZero() {
			t.Error(since, err)
		}
		is(func() error { return nil })
		close(hang)
		said("backend back")
		cancel()
		<-done
	})
}
