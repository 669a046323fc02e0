package replicas_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stag-rdma/stag/internal/pmemsim"
	"github.com/stag-rdma/stag/internal/rdmaptest"
	"github.com/stag-rdma/stag/transport/commitlog"
	"github.com/stag-rdma/stag/transport/replicas"
)

func TestMain(m *testing.M) { rdmaptest.Main(m) }

var seeds = flag.Uint64("replicas.seeds", 4, "worlds of TestModel")

var (
	errDown = errors.New("the node is down")
	errCut  = errors.New("the node cannot be reached")
)

// node is a server with one log, in the crash model of persistent memory.
type node struct {
	t *testing.T

	mu   sync.Mutex
	sim  *pmemsim.Sim
	log  *commitlog.Log // nil: down
	held *held          // the last session
	keep func()         // ends the consumer
}

// held is a session at a node.
type held struct {
	n   *node
	p   *commitlog.Producer
	log *commitlog.Log

	mu  sync.Mutex
	err error

	mute *atomic.Bool // what is read is not answered
}

// newNode returns a node that calls step before and after it stores or flushes anything; nil: it does not.
func newNode(t *testing.T, step func(*pmemsim.Sim)) *node {
	size, err := commitlog.MemorySize(64 << 10)
	if err != nil {
		t.Fatal(err)
	}
	n := &node{t: t, sim: pmemsim.New(size, &pmemsim.Options{Step: step})}
	if err := commitlog.Create(n.sim, nil); err != nil {
		t.Fatal(err)
	}
	n.start()
	return n
}

// start opens the log of a node that is down.
func (n *node) start() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.log != nil {
		return
	}
	l, err := commitlog.Open(n.sim)
	if err != nil {
		n.t.Error(err)
		return
	}
	n.log = l
	ctx, cancel := context.WithCancel(context.Background())
	over := make(chan struct{})
	go func() {
		defer close(over)
		if err := replicas.Keep(ctx, l); !errors.Is(err, context.Canceled) {
			n.t.Error("keep:", err)
		}
	}()
	n.keep = func() { cancel(); <-over }
}

// crash ends the node, and leaves one of the images that a loss of power may leave.
func (n *node) crash(r *rand.Rand) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.log == nil {
		return
	}
	if n.held != nil {
		n.held.end(errDown) // before the image is taken: nothing is acknowledged any more
	}
	n.keep()
	if err := n.log.Close(context.Background()); err != nil {
		n.t.Error(err)
	}
	n.log = nil
	left := r.IntN(10)
	for im := range n.sim.Told().Crashes(r.Uint64(), 4) {
		if left--; left < 0 {
			n.sim = im.Open()
			return
		}
	}
	n.sim = pmemsim.Open(n.sim.Told().Durable(), nil)
}

func (h *held) end(err error) {
	h.mu.Lock()
	if h.err == nil {
		h.err = err
	}
	h.mu.Unlock()
	h.p.Close()
}

func (h *held) Limit() int { return h.p.Place().Limit }

func (h *held) Begin(record []byte) (*commitlog.Pending, error) { return h.p.Begin(record) }

func (h *held) Err() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.err
}

func (h *held) Close(context.Context) error { h.end(errCut); return nil }

func (h *held) Read(_ context.Context, visit func(*commitlog.Record) error) error {
	if h.mute.Load() {
		return commitlog.ErrSilent
	}
	ended, cancel := context.WithCancel(context.Background())
	cancel() // Read does not wait
	for from := uint64(0); ; {
		recs, err := h.log.Read(ended, from, 1000)
		if errors.Is(err, context.Canceled) {
			return h.Err()
		}
		if err != nil {
			return err
		}
		for _, r := range recs {
			from = r.Seq + 1
			if err := visit(r); err != nil {
				return err
			}
		}
	}
}

// way is how a producer reaches a node.
type way struct {
	n *node

	mute atomic.Bool

	mu  sync.Mutex
	cut bool
	h   *held
}

func (w *way) Open(ctx context.Context) (replicas.Session, error) {
	for {
		h, err := w.open(ctx)
		if err == nil {
			return h, nil
		}
		select {
		case <-time.After(time.Millisecond):
		case <-ctx.Done():
			return nil, err
		}
	}
}

func (w *way) open(ctx context.Context) (*held, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.cut {
		return nil, errCut
	}
	n := w.n
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.log == nil {
		return nil, errDown
	}
	if n.held != nil {
		n.held.end(replicas.ErrFenced)
	}
	h := &held{n: n, p: commitlog.NewProducer(nil), log: n.log, mute: &w.mute}
	if err := n.log.Local(ctx, h.p); err != nil {
		return nil, err
	}
	n.held, w.h = h, h
	return h, nil
}

func (w *way) set(cut bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.cut = cut; cut && w.h != nil {
		w.h.end(errCut)
	}
}

// producer is one of those that take over from each other.
type producer struct {
	l    *replicas.Log
	ways []*way
}

// world is a replicated log and what was acknowledged.
type world struct {
	t     *testing.T
	r     *rand.Rand
	nodes []*node
	dead  map[int]bool // for ever
	old   []*producer
	now   *producer
	acked map[uint64]string
	trim  uint64
	n     int
	did   map[string]int
}

func (w *world) takeOver() {
	p := &producer{}
	var rs []replicas.Replica
	for _, n := range w.nodes {
		way := &way{n: n, cut: w.r.IntN(6) == 0}
		p.ways, rs = append(p.ways, way), append(rs, way)
	}
	ctx, cancel := context.WithTimeout(w.t.Context(), 300*time.Millisecond)
	defer cancel()
	l, err := replicas.Open(ctx, rs, &replicas.Options{Late: time.Millisecond, Retry: time.Millisecond, Step: time.Duration(5+w.r.IntN(200)) * time.Millisecond})
	if err != nil {
		w.did["no majority"]++
		return
	}
	w.did["taken over"]++
	if w.now != nil {
		w.old = append(w.old, w.now)
	}
	p.l, w.now = l, p
	w.check()
}

// check compares the log with what was acknowledged.
func (w *world) check() {
	w.t.Helper()
	first, last := w.now.l.Bounds()
	got := make(map[uint64]string)
	err := w.now.l.Read(w.t.Context(), 0, func(index uint64, payload []byte) error { got[index] = string(payload); return nil })
	if errors.Is(err, replicas.ErrMajority) || errors.Is(err, replicas.ErrFenced) || errors.Is(err, errDown) || errors.Is(err, replicas.ErrTrimmed) || errors.Is(err, errCut) || errors.Is(err, commitlog.ErrClosed) {
		return // it has just failed
	}
	if err != nil {
		w.t.Fatal(err)
	}
	for index, payload := range w.acked {
		if index >= first && got[index] != payload || index > last {
			w.t.Fatalf("entry %d of %d to %d: %.20q, acknowledged was %q", index, first, last, got[index], payload)
		}
	}
	if first > w.trim+1 && first > 1 {
		w.t.Fatalf("first %d, trimmed to %d", first, w.trim)
	}
	w.did["checked"]++
}

func (w *world) append(p *producer) {
	w.n++
	payload := fmt.Sprint("entry ", w.n)
	ctx, cancel := context.WithTimeout(w.t.Context(), time.Duration(w.r.IntN(30))*time.Millisecond)
	defer cancel()
	index, err := p.l.Append(ctx, []byte(payload))
	if err != nil {
		w.did["not acknowledged"]++
		return
	}
	if p != w.now {
		w.t.Fatalf("acknowledged %q to a producer that was fenced", payload)
	}
	if other, ok := w.acked[index]; ok {
		w.t.Fatalf("%q and %q are both entry %d", other, payload, index)
	}
	w.acked[index] = payload
	w.did["acknowledged"]++
}

func (w *world) step() {
	n := w.r.IntN(len(w.nodes))
	switch k := w.r.IntN(40); {
	case k < 1:
		w.takeOver()
	case k < 2 && !w.dead[n]:
		w.nodes[n].crash(w.r)
		w.did["crash"]++
	case k < 5 && !w.dead[n]:
		w.nodes[n].start()
	case k < 6 && w.now != nil:
		w.now.ways[n].set(true)
	case k < 9 && w.now != nil:
		w.now.ways[n].set(false)
	case k == 11 && w.now != nil && len(w.dead) < (len(w.nodes)-1)/2 && w.r.IntN(10) == 0:
		w.nodes[n].crash(w.r)
		w.dead[n] = true
	case k == 12 && len(w.old) > 0:
		w.append(w.old[w.r.IntN(len(w.old))])
	case k == 13 && w.now != nil:
		if _, last := w.now.l.Bounds(); last > 0 {
			first := last - min(last-1, w.r.Uint64N(20))
			if w.now.l.Trim(first) == nil {
				w.trim = max(w.trim, first)
				w.did["trimmed"]++
			}
		}
	case w.now != nil:
		w.append(w.now)
	}
}

// No interleaving of appends, crashes, lost connections, takeovers and trims loses or changes what was acknowledged, as
// long as a majority has not died for ever; and nobody who was fenced is acknowledged.
func TestModel(t *testing.T) {
	for _, count := range []int{3, 5} {
		t.Run(fmt.Sprint(count), func(t *testing.T) {
			t.Parallel()
			did := make(map[string]int)
			for seed := range *seeds {
				w := &world{t: t, r: rand.New(rand.NewPCG(seed, uint64(count))), dead: make(map[int]bool), acked: make(map[uint64]string), did: did}
				for range count {
					w.nodes = append(w.nodes, newNode(t, nil))
				}
				w.takeOver()
				for range 250 {
					w.step()
				}
				w.end(seed)
			}
			t.Log(did)
			for _, what := range []string{"acknowledged", "not acknowledged", "taken over", "checked", "crash", "trimmed"} {
				if did[what] == 0 {
					t.Errorf("never %s", what)
				}
			}
		})
	}
}

// end brings back everything that can come back, takes over and looks at all of it.
func (w *world) end(seed uint64) {
	for i, n := range w.nodes {
		if !w.dead[i] {
			n.crash(w.r)
			n.start()
		}
	}
	checked := w.did["checked"]
	for try := 0; w.did["checked"] == checked; try++ {
		if try == 100 {
			w.t.Fatalf("seed %d: a majority lives, and nobody can take over", seed)
		}
		w.takeOver()
	}
	w.append(w.now)
	for _, p := range append(w.old, w.now) {
		if err := p.l.Close(context.Background()); err != nil {
			w.t.Error(err)
		}
	}
	for _, n := range w.nodes {
		n.crash(w.r)
	}
	if w.t.Failed() {
		w.t.Fatal("seed", seed)
	}
}
