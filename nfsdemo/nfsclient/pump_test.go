package nfsclient

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync/atomic"
	"testing"
)

// newPump moves src to dst through a pump, with the given geometry.
func newPump(block, depth int, move moveFunc) *pump {
	return &pump{bufs: newFreeList(block, depth), block: block, depth: depth, move: move}
}

func TestPumpFirstErrorStops(t *testing.T) {
	bad := errors.New("bad block")
	var calls atomic.Int32
	p := newPump(10, 4, func(ctx context.Context, _ *worker, off int64, n int) (int, bool, error) {
		calls.Add(1)
		if off == 30 {
			return 5, false, bad
		}
		if off > 30 {
			<-ctx.Done() // however long the bad one takes
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

// TestPumpShortSomewhere compares with a naive reading of "good": the first octet
// that was not moved.
func TestPumpShortSomewhere(t *testing.T) {
	seed := rand.Uint64()
	rng := rand.New(rand.NewPCG(seed, 1))
	for range 200 {
		size, block, depth := rng.IntN(200), 1+rng.IntN(20), 1+rng.IntN(5)
		eof := rng.IntN(220)
		p := newPump(block, depth, func(_ context.Context, _ *worker, off int64, n int) (int, bool, error) {
			got := max(0, min(n, eof-int(off)))
			return got, int(off)+got == eof, nil
		})
		good, last, err := p.run(t.Context(), 0, int64(size))
		if err != nil || good != int64(min(size, eof)) {
			t.Fatalf("seed %d: size %d eof %d block %d: good = %d, %v", seed, size, eof, block, good, err)
		}
		if want := eof <= size && size > 0; last != want && eof != 0 {
			t.Fatalf("seed %d: size %d eof %d block %d: last = %v, want %v", seed, size, eof, block, last, want)
		}
	}
}

func TestFreeListIsBounded(t *testing.T) {
	l := newFreeList(8, 1)
	a, b := l.get(), l.get()
	l.put(a[:3])
	l.put(b)
	if got := l.get(); &got[0] != &a[0] || len(got) != 8 {
		t.Error("the first buffer must come back whole")
	}
	if got := l.get(); &got[0] == &b[0] {
		t.Error("the list kept more than one buffer")
	}
}
