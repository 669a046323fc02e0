package push

import (
	"fmt"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stag-rdma/stag/internal/pmemsim"
	"github.com/stag-rdma/stag/rdmap/region"
)

// More hosts than are remembered share what is left.
func TestRates(t *testing.T) {
	r := newRates(1)
	now := time.Now()
	for i := range 2 * maxRates {
		r.try(fmt.Sprint(i), now)
	}
	if len(r.byHost) != maxRates {
		t.Errorf("%d hosts", len(r.byHost))
	}
	if r.try("one more", now) {
		t.Error("it has its own bucket")
	}
	if !r.try("one more", now.Add(time.Minute)) || len(r.byHost) != 1 {
		t.Errorf("idle ones were not forgotten: %d left", len(r.byHost))
	}
}

// Flushes and hashes beyond the budget of a log wait; those within it do not.
func TestBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ps := &Server{Limits: Limits{Flushes: 10, Hashed: 1 << 20}}
		ps.init()
		mem, ok := newBudgeted(pmemsim.New(1<<20, nil), &ps.lim, &ps.ctr.slowed, nil).(region.ReadBacker)
		if !ok {
			t.Fatal("cannot be read back")
		}
		took := func(f func()) time.Duration {
			from := time.Now()
			f()
			return time.Since(from)
		}
		flush := func() {
			if err := mem.Persist(0, 64); err != nil {
				t.Fatal(err)
			}
		}
		if d := took(func() {
			for range 10 {
				flush()
			}
		}); d != 0 {
			t.Error("within the budget:", d)
		}
		if d := took(flush); d != longestWait {
			t.Error("beyond the budget:", d)
		}
		if d := took(func() { _ = mem.Persist(0, 0) }); d != 0 {
			t.Error("a question:", d)
		}
		hash := func(n int) { _ = mem.ReadBack(io.Discard, 0, n) }
		if d := took(func() { hash(1 << 20) }); d != 0 {
			t.Error("hashes within the budget:", d)
		}
		if d := took(func() { hash(32 << 10) }); d != time.Second/32 {
			t.Error("hashes beyond the budget:", d)
		}
		time.Sleep(2 * time.Second)
		if d := took(func() { flush(); hash(1 << 20) }); d != 0 {
			t.Error("later:", d)
		}
		if n := ps.Stats().Slowed; n != 2 {
			t.Errorf("%d slowed", n)
		}
	})
}
