package pushwrite_test

import (
	"bytes"
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stag-rdma/stag/nfsdemo/internal/pushwrite"
	"github.com/stag-rdma/stag/nfsdemo/nfs3"
	"github.com/stag-rdma/stag/nfsdemo/server"
)

// gate has the writes to files wait while it is shut, and counts them.
type gate struct {
	mu    sync.Mutex
	cond  sync.Cond
	shut  map[string]bool
	fails map[string]error
	wrote []string
}

func newGate() *gate {
	g := &gate{shut: make(map[string]bool), fails: make(map[string]error)}
	g.cond.L = &g.mu
	return g
}

// write is a faulty.write.
func (g *gate) write(r *server.Grant, _ []byte, _ uint64) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	for g.shut[string(r.File)] {
		g.cond.Wait()
	}
	g.wrote = append(g.wrote, string(r.File))
	return g.fails[string(r.File)]
}

// set blocks or unblocks files, and sets the result of their writes.
func (g *gate) set(shut bool, err error, files ...nfs3.FileHandle) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, f := range files {
		g.shut[string(f)], g.fails[string(f)] = shut, err
	}
	g.cond.Broadcast()
}

// flood is a client that appends records to a file, which continue each other.
type flood struct {
	acked  atomic.Int64
	cancel context.CancelFunc
	over   chan struct{}
}

// flood begins with record number from.
func (p *pusher) flood(lease uint64, from int64) *flood {
	ctx, cancel := context.WithCancel(p.t.Context())
	f := &flood{cancel: cancel, over: make(chan struct{})}
	f.acked.Store(from)
	go func() {
		defer close(f.over)
		for {
			n := f.acked.Load()
			if err := p.writeFor(ctx, lease, uint64(n*dataLen), pieceOf(n)); err != nil {
				if !errors.Is(err, context.Canceled) {
					p.t.Error(err)
				}
				return
			}
			f.acked.Add(1)
		}
	}()
	return f
}

// stop returns how many records have been acknowledged. One more is under way, perhaps.
func (f *flood) stop() int64 {
	f.cancel()
	<-f.over
	return f.acked.Load()
}

// dataLen is how much data each record of a flood has, octets.
const dataLen = 1000

// slot is how many octets of a ring such a record takes: with its two heads, rounded up to 64.
const slot = 1088

// whole returns the content of a file after n records.
func whole(n int64) string {
	var b bytes.Buffer
	for i := range n {
		b.Write(pieceOf(i))
	}
	return b.String()
}

func pieceOf(i int64) []byte { return bytes.Repeat([]byte{'a' + byte(i%26)}, dataLen) }

// TestTurns: a log that is flooded has its records applied beside those of others, not before
// them: while all have some, each has at least 0.7 of an equal share. What is counted are
// records, in the order in which they are written.
func TestTurns(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(c *pushwrite.Config) { // batches are full: they gather until a quarter of the ring is in use
		c.Limits.Capacity, c.Appliers = 128<<10, 1
		c.SetLinger(time.Hour)
	})
	g := newGate()
	w.files.fail(g.write, nil)
	p := w.plain(0)
	first := p.create("first", 0o644)
	g.set(true, nil, first)
	holder := w.pusher("first", 0)
	holder.wrote(holder.lease(first), 0, "x") // has the only turn until everybody has records
	w.pw.Hurry("first")
	until(t, "the first turn is taken", func() bool { return w.pw.Turns() == 1 })
	const few = 640
	want := map[string]int{"flood": 1920, "a": few, "b": few, "c": few}
	for name, n := range want {
		c, h := w.pusher(name, 0), p.create(name, 0o644)
		l := c.lease(h)
		var wg sync.WaitGroup
		for range 16 {
			wg.Go(func() {
				for range n / 16 {
					c.wrote(l, 0, "y")
				}
			})
		}
		wg.Wait()
	}
	until(t, "all wait for a turn", func() bool { return w.pw.Stats().Queued == len(want) })
	var last string
	turns := 0
	w.files.fail(func(r *server.Grant, p []byte, off uint64) error {
		if f := string(r.File); f != last && f != string(first) {
			last = f
			turns++ // nobody runs out before the third, and nobody may be late for one
			for end := time.Now().Add(10 * time.Second); turns <= 2*len(want)+1 && w.pw.Stats().Queued < len(want)-1 && time.Now().Before(end); {
				time.Sleep(time.Millisecond)
			}
		}
		return g.write(r, p, off)
	}, nil)
	g.set(false, nil, first)
	for name := range want {
		h := nfs[nfs3.LookupRes](p, nfs3.ProcLookup, &nfs3.DirOpArgs{Dir: p.root(), Name: name}).Handle
		p.has(h, "y")
	}
	count := make(map[string]int)
	total := 0
	for _, f := range g.wrote {
		if f == string(first) {
			continue
		}
		total++
		if count[f]++; count[f] == few { // the first that has no more
			break
		}
	}
	if len(count) != 4 {
		t.Fatalf("%d logs had a turn", len(count))
	}
	for f, n := range count {
		if share := float64(n) * 4 / float64(total); share < 0.7 {
			t.Errorf("a log had %.2f of an equal share (%d of %d): %x", share, n, total, f)
		}
	}
}
