package once_test

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/stag-rdma/stag/internal/pmemsim"
	"github.com/stag-rdma/stag/nfsdemo/internal/once"
)

// issued is a call of a client.
type issued struct {
	xid, proc uint32
	names     []string
}

// cut is the state at one moment: the memory of the journal, the shelf, and
// what clients have been told.
type cut struct {
	snap  *pmemsim.Snapshot
	shelf *shelf
	acked map[uint32]string
	calls []issued
}

// recorder runs clients and makes a cut at every store and flush of the journal.
type recorder struct {
	shelf *shelf

	// What follows is guarded by shelf.mu.
	acked map[uint32]string
	calls []issued
	cuts  []cut
}

func (r *recorder) cut(sim *pmemsim.Sim) {
	r.shelf.mu.Lock()
	defer r.shelf.mu.Unlock()
	r.cuts = append(r.cuts, cut{
		snap: sim.Told(), shelf: r.shelf.clone(), acked: maps.Clone(r.acked), calls: slices.Clip(r.calls),
	})
}

// client makes n calls, one after the other, and sometimes one again.
func (r *recorder) client(h *once.Handler, seed uint64, n uint32) {
	rnd := rand.New(rand.NewPCG(seed, 2))
	pick := func() string { return string(rune('a' + rnd.IntN(4))) }
	for i := range n {
		c := issued{uint32(seed)<<16 + i, procMake + rnd.Uint32N(3), []string{pick()}}
		if c.proc == procMove {
			c.names = append(c.names, pick())
		}
		r.shelf.mu.Lock()
		r.calls = append(r.calls, c)
		r.shelf.mu.Unlock()
		for range 1 + rnd.IntN(2) {
			got := string(send(h, c.xid, c.proc, c.names...))
			r.shelf.mu.Lock()
			r.acked[c.xid] = got
			r.shelf.mu.Unlock()
		}
	}
}

// TestCrash ends a server with several clients at every store and every flush of its
// journal, in memories that such an end could leave, and starts another on what is there
// (ADVERSARY 19, 21): what was answered is answered so again, what was not is executed if
// and only if it was not yet.
func TestCrash(t *testing.T) {
	for seed := range uint64(3) {
		r := record(t, seed, 64<<10, 6)
		settled := 0
		for i := range r.cuts {
			settled += r.cuts[i].crash(t, seed, 3)
		}
		if len(r.cuts) < 50 || settled == 0 {
			t.Errorf("seed %d: %d moments, %d calls found executed", seed, len(r.cuts), settled)
		}
	}
}

// TestCrashSweep is the same with a ring that is swept all the time, where there is room
// for 32 replies (ADVERSARY 23).
func TestCrashSweep(t *testing.T) {
	r := record(t, 5, 32<<10, 40)
	for i := range r.cuts {
		c := &r.cuts[i]
		c.calls = c.calls[max(0, len(c.calls)-20):]
		if i%5 == 0 || i > len(r.cuts)-20 {
			c.crash(t, 5, 2)
		}
	}
}

// record runs three clients with n calls each.
func record(t *testing.T, seed uint64, capacity int, n uint32) *recorder {
	t.Helper()
	r := &recorder{shelf: newShelf(), acked: make(map[uint32]string)}
	sim := pmemsim.Open(newImage(t, 16<<10+capacity), &pmemsim.Options{Step: r.cut})
	h, j := start(t, r.shelf, sim, nil)
	var wg sync.WaitGroup
	for i := range uint64(3) {
		wg.Go(func() { r.client(h, 10*seed+i, n) })
	}
	wg.Wait()
	if err := j.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	if s := j.Stats(); n > 20 && (s.Sweeps == 0 || s.Copied == 0) {
		t.Errorf("nothing was swept: %+v", s)
	}
	return r
}

// crash ends everything at a moment, in up to n ways, and returns how many calls were found
// executed.
func (c *cut) crash(t *testing.T, seed uint64, n int) (settled int) {
	t.Helper()
	for im := range c.snap.Crashes(seed, 1) {
		if n--; n < 0 {
			break
		}
		s, err := c.check(im)
		if err != nil {
			t.Fatalf("seed %d, %d calls, %v: %v", seed, len(c.calls), im, err)
		}
		settled += int(s.SettledDone)
	}
	return settled
}

// check starts a server on what a crash has left, and sends every call again, twice.
func (c *cut) check(im *pmemsim.Image) (once.Stats, error) {
	s := c.shelf.clone()
	j, err := once.Open(pmemsim.Open(im.Octets(), nil), nil)
	if err != nil {
		return once.Stats{}, err
	}
	defer j.Close(context.Background()) //nolint:errcheck // nobody touches the memory
	h, err := once.New(context.Background(), j, s, nil)
	if err != nil {
		return once.Stats{}, err
	}
	stats := j.Stats()
	before := maps.Clone(s.effects)
	for _, x := range c.calls {
		reply := string(send(h, x.xid, x.proc, x.names...))
		if was, ok := c.acked[x.xid]; ok && (reply != was || s.effects[x.xid] != before[x.xid]) {
			return stats, fmt.Errorf("call %#x was answered with %x, is with %x; executed %d times", x.xid, was, reply, s.effects[x.xid])
		}
		if again := string(send(h, x.xid, x.proc, x.names...)); again != reply {
			return stats, fmt.Errorf("call %#x is answered with %x, then with %x", x.xid, reply, again)
		}
		if n := s.effects[x.xid]; n > 1 || (reply[3] == 0) != (n == 1) {
			return stats, fmt.Errorf("call %#x had its effect %d times, reply %x", x.xid, n, reply)
		}
	}
	return stats, nil
}
