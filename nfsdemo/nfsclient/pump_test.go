package nfsclient

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
)

// newPump moves src to dst through a pump, with the given geometry.
func newPump(block, depth int, move moveFunc) *pump {
	return &pump{bufs: &freeList{block, make(chan []byte, depth)}, depth: depth, move: move}
}

func TestPumpFirstErrorStops(t *testing.T) {
	bad := errors.New("bad block")
	var calls atomic.Int32
	behind := make(chan struct{})
	over := sync.OnceFunc(func() { close(behind) })
	p := newPump(10, 4, func(ctx context.Context, _ *worker, off int64, n int) (int, bool, error) {
		calls.Add(1)
		if off == 30 {
			<-behind // is in flight
			return 5, false, bad
		}
		if off > 30 {
			over()
			<-ctx.Done()
		}
		return n, false, nil
	})
	good, _, err := p.run(t.Context(), 0, 1000)
	if !errors.Is(err, bad) {
		t.Fatalf("got %v, want %v", err, bad)
	}
	if good != 35 {
		t.Errorf("good = %d, want 35: everything before the failed octet", good)
	}
	if n := calls.Load(); n > 4+3+1 {
		t.Errorf("%d blocks were started, want the pump to stop", n)
	}
}

func TestPumpCancelled(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("enough")
	p := newPump(1, 2, func(ctx context.Context, _ *worker, off int64, n int) (int, bool, error) {
		if off == 5 {
			cancel(why)
		}
		return n, false, nil
	})
	_, _, err := p.run(ctx, 0, 1000)
	if !errors.Is(err, why) {
		t.Fatalf("got %v, want the context's cause", err)
	}
}
