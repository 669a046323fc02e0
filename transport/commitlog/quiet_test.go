package commitlog_test

import (
	"context"
	"encoding/binary"
	"errors"
	"testing"
	"time"

	"github.com/stag-rdma/stag/rdmap/region"
	"github.com/stag-rdma/stag/rdmap/region/pmem"
	"github.com/stag-rdma/stag/rdmap/region/pmem/pmemtest"
	"github.com/stag-rdma/stag/transport/commitlog"
)

// A log that is quiet has a durable tail, so that damage of its very last record is noticed after a loss of power.
func TestQuiet(t *testing.T) {
	mem := sim(4096)
	_, p := openLocal(t, newTestLog(t, mem, commitlog.WAL))
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

// Close does not wait longer than its context for the flush of a quiet log whose disk hangs.
func TestQuietHangs(t *testing.T) {
	mem, f := faulty(4096)
	l, p := openLocal(t, newTestLog(t, mem, commitlog.WAL))
	put(t, p, "record")
	entered, release := f.Hang(pmem.OpPersist)
	<-entered
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if err := l.Close(ctx); !errors.Is(err, region.ErrPinned) {
		t.Error(err)
	}
	release()
	if err := l.Close(t.Context()); err != nil {
		t.Error(err)
	}
}
