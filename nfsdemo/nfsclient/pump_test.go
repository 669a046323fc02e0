package nfsclient

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
)

// newPump moves src to dst through a pump, with the given geometry.
func newPump(block, depth int, move moveFunc) *pump {
	return &pump{bufs: newFreeList(block, depth), block: block, depth: depth, move: move}
}

func TestPumpMovesEverything(t *testing.T) {
	for _, tt := range []struct {
		size, block, depth int
		hint               int64 // end given to run
		last               bool
	}{
		{0, 4, 3, 0, false},
		{0, 4, 3, -1, true},
		{1, 4, 3, 1, false},
		{1, 4, 3, -1, true},
		{12, 4, 3, 12, false},
		{12, 4, 3, -1, true},
		{13, 4, 3, 13, false},
		{13, 4, 1, 13, false},
		{13, 4, 3, 40, true}, // shorter than it was said to be
		{400, 7, 5, 400, false},
	} {
		t.Run(fmt.Sprintf("%d/%d x%d to %d", tt.size, tt.block, tt.depth, tt.hint), func(t *testing.T) {
			src, dst := testData(tt.size), make(Memory, tt.size)
			p := newPump(tt.block, tt.depth, func(_ context.Context, w *worker, off int64, n int) (int, bool, error) {
				got, err := src.ReadAt(w.buf(n), off)
				if err != nil && err != io.EOF {
					return 0, false, err
				}
				_, werr := dst.WriteAt(w.buf(n)[:got], off)
				return got, err == io.EOF, werr
			})
			good, last, err := p.run(t.Context(), 0, tt.hint)
			if err != nil || good != int64(tt.size) || last != tt.last {
				t.Fatalf("run = %d, %v, %v, want %d, %v, nil", good, last, err, tt.size, tt.last)
			}
			if !bytes.Equal(src, dst) {
				t.Errorf("got %x, want %x", dst, src)
			}
		})
	}
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

func TestPumpKeepsDepthInFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		now, most := 0, 0
		gate := make(chan struct{})
		p := newPump(1, 3, func(_ context.Context, _ *worker, _ int64, n int) (int, bool, error) {
			mu.Lock()
			now++
			most = max(most, now)
			mu.Unlock()
			<-gate
			mu.Lock()
			now--
			mu.Unlock()
			return n, false, nil
		})
		go func() {
			for range 10 {
				synctest.Wait()
				gate <- struct{}{}
			}
		}()
		if good, _, err := p.run(t.Context(), 0, 10); good != 10 || err != nil {
			t.Fatalf("run = %d, %v", good, err)
		}
		if most != 3 {
			t.Errorf("the most blocks in flight were %d, want 3", most)
		}
	})
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

// testData returns n octets that differ from block to block.
func testData(n int) Memory {
	m := make(Memory, n)
	rng := rand.NewChaCha8([32]byte{1})
	_, _ = rng.Read(m)
	return m
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
