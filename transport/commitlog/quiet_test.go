package commitlog_test

import (
	"encoding/binary"
	"errors"
	"testing"
	"time"

	"github.com/stag-rdma/stag/rdmap/region/pmem"
	"github.com/stag-rdma/stag/transport/commitlog"
)

// A log that is quiet has a durable tail, so that damage of its very last record is noticed after a loss of power.
func TestQuiet(t *testing.T) {
	size, err := commitlog.MemorySize(4096)
	if err != nil {
		t.Fatal(err)
	}
	mem := pmem.NewSim(size, nil)
	if err := commitlog.Create(mem, nil); err != nil {
		t.Fatal(err)
	}
	_, p := openLog(t, mem)
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
	l, err := commitlog.Open(pmem.OpenSim(power, nil))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close(t.Context()) //nolint:errcheck // nothing was written
	for range 14 {
		if _, err := l.Next(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if rec, err := l.TryNext(); !errors.As(err, new(*commitlog.PoisonError)) {
		t.Errorf("the last record was damaged, and is taken for one that never was: %v %v", rec, err)
	}
}
