package commitlog_test

import (
	"context"
	"encoding/binary"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stag-rdma/stag/rdmap/region"
	"github.com/stag-rdma/stag/rdmap/region/pmem/pmemtest"
	"github.com/stag-rdma/stag/transport/commitlog"
)

// A log that is quiet has a durable tail, so that damage of its very last record is noticed after a loss of power.
func TestQuiet(t *testing.T) {
	size := must(commitlog.MemorySize(4096))(t)
	mem := pmemtest.NewSim(size, nil)
	noErr(t, commitlog.Create(mem, nil))
	_, p := openLocal(t, mem)
	durable := func() uint64 { return binary.BigEndian.Uint64(mem.Told().Durable()[8192:]) }
	for n := range 3 {
		for range 5 {
			put(t, p, "record")
		}
		want := uint64(n+1) * 5 * 64
		for end := time.Now().Add(time.Minute); durable() != want; time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("the tail is durable to %d, want %d", durable(), want)
			}
		}
	}
	power := mem.Told().Durable()
	power[20480+14*64+28] ^= 1
	l := must(commitlog.Open(pmemtest.OpenSim(power, nil)))(t)
	defer l.Close(t.Context()) //nolint:errcheck // nothing was written
	for range 14 {
		must(l.Next(t.Context()))(t)
	}
	if rec, err := l.TryNext(); !errors.As(err, new(*commitlog.PoisonError)) {
		t.Errorf("the last record was damaged, and is taken for one that never was: %v %v", rec, err)
	}
}

// hung is memory whose flushes hang while it is told so.
type hung struct {
	*pmemtest.Sim
	stop atomic.Pointer[chan struct{}]
	here chan struct{}
}

func (h *hung) Persist(off, n int) error {
	return h.PersistRanges([]region.Range{{Off: off, N: n}})
}

func (h *hung) PersistRanges(rs []region.Range) error {
	if stop := h.stop.Load(); stop != nil && rs[0].N > 0 {
		h.here <- struct{}{}
		<-*stop
	}
	return h.Sim.PersistRanges(rs)
}

// Close does not wait longer than its context for the flush of a quiet log whose disk hangs.
func TestQuietHangs(t *testing.T) {
	size := must(commitlog.MemorySize(4096))(t)
	mem := &hung{Sim: pmemtest.NewSim(size, nil), here: make(chan struct{}, 1)}
	noErr(t, commitlog.Create(mem, nil))
	l, p := openLocal(t, mem)
	put(t, p, "record")
	stop := make(chan struct{})
	mem.stop.Store(&stop)
	<-mem.here
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if err := l.Close(ctx); !errors.Is(err, region.ErrPinned) {
		t.Error(err)
	}
	close(stop)
	if err := l.Close(t.Context()); err != nil {
		t.Error(err)
	}
}
