package replicas_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stag-rdma/stag/transport/commitlog"
	"github.com/stag-rdma/stag/transport/replicas"
)

// open takes over nodes; the ways to those in cut are closed.
func open(t *testing.T, nodes []*node, cut ...int) *producer {
	t.Helper()
	p := &producer{}
	var rs []replicas.Replica
	for i, n := range nodes {
		w := &way{n: n, cut: slices.Contains(cut, i)}
		p.ways, rs = append(p.ways, w), append(rs, w)
	}
	l, err := replicas.Open(t.Context(), rs, &replicas.Options{Late: 50 * time.Millisecond, Retry: time.Millisecond, Step: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	p.l = l
	t.Cleanup(func() { _ = l.Close(context.Background()) })
	return p
}

func three(t *testing.T) (nodes []*node) {
	for range 3 {
		n := newNode(t, nil)
		t.Cleanup(func() { n.crash(rand.New(rand.NewPCG(1, 1))) })
		nodes = append(nodes, n)
	}
	return nodes
}

// has wants these entries.
func (p *producer) has(t *testing.T, want ...string) {
	t.Helper()
	var got []string
	err := p.l.Read(t.Context(), 0, func(_ uint64, payload []byte) error { got = append(got, string(payload)); return nil })
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("%q %v, want %q", got, err, want)
	}
}

func (p *producer) append(t *testing.T, payload string, acked bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	if acked {
		ctx = t.Context()
	}
	defer cancel()
	if _, err := p.l.Append(ctx, []byte(payload)); (err == nil) != acked {
		t.Fatalf("%q: %v", payload, err)
	}
}

// The log of the highest term counts, however long that of an older one has become at a minority, and what is there besides
// is cut off.
func TestLongerButOlder(t *testing.T) {
	nodes := three(t)
	one := open(t, nodes)
	one.append(t, "1", true)
	one.ways[1].set(true)
	one.ways[2].set(true)
	for range 5 {
		one.append(t, "never", false)
	}
	two := open(t, nodes, 0)
	two.append(t, "2", true)
	three := open(t, nodes, 2) // of two's majority, only node 1 is there; and node 0, whose log is longer
	three.has(t, "1", "2")
	three.append(t, "3", true)
	four := open(t, nodes, 1)
	four.has(t, "1", "2", "3")
	if _, err := one.l.Append(t.Context(), nil); !errors.Is(err, replicas.ErrFenced) {
		t.Error(err)
	}
}

// A replica that was away is completed while others append, and is then as good as any other.
func TestRejoin(t *testing.T) {
	nodes := three(t)
	p := open(t, nodes, 2)
	var want []string
	add := func(n int) {
		for range n {
			want = append(want, fmt.Sprint("entry ", len(want)+1))
			p.append(t, want[len(want)-1], true)
		}
	}
	add(20)
	p.ways[2].set(false)
	for p.l.Live() < 3 {
		add(1)
	}
	nodes[0].crash(rand.New(rand.NewPCG(2, 2)))
	add(5)
	open(t, nodes, 0).has(t, want...)
}

// A replica that does not answer a read is left out, and another one is read.
func TestReadSilent(t *testing.T) {
	p := open(t, three(t))
	p.append(t, "1", true)
	for p.l.Live() < 3 {
		time.Sleep(time.Millisecond)
	}
	mute := func(on bool, ways ...*way) {
		for _, w := range ways {
			w.mute.Store(on)
		}
	}
	mute(true, p.ways[2])
	p.has(t, "1")
	mute(true, p.ways...)
	if err := p.l.Read(t.Context(), 0, nil); !errors.Is(err, replicas.ErrMajority) {
		t.Error(err)
	}
	mute(false, p.ways...)
	for p.l.Live() < 3 {
		time.Sleep(time.Millisecond)
	}
	p.has(t, "1")
}

// Entries that were trimmed are gone, also for a replica that was away meanwhile, and their room is free.
func TestTrim(t *testing.T) {
	nodes := three(t)
	p := open(t, nodes)
	p.append(t, "first", true)
	p.ways[2].set(true)
	big := string(make([]byte, 10_000))
	for n := range 40 { // several rings
		p.append(t, big, true)
		if err := p.l.Trim(uint64(n + 2)); err != nil {
			t.Fatal(err)
		}
	}
	p.append(t, "last", true)
	p.ways[2].set(false)
	for p.l.Live() < 3 {
		time.Sleep(time.Millisecond)
	}
	if err := p.l.Trim(43); !errors.Is(err, nil) {
		t.Fatal(err)
	}
	if err := p.l.Trim(44); err == nil {
		t.Error("trimmed an entry that does not exist")
	}
	p.append(t, "after", true)
	if err := p.l.Read(t.Context(), 3, nil); !errors.Is(err, replicas.ErrTrimmed) {
		t.Error(err)
	}
	nodes[0].crash(rand.New(rand.NewPCG(3, 3)))
	q := open(t, nodes, 0)
	q.has(t, "after")
	if first, last := q.l.Bounds(); first != 43 || last != 43 {
		t.Error(first, last)
	}
}

// An entry that is too large for a replica is refused, and does no harm.
func TestTooLarge(t *testing.T) {
	p := open(t, three(t))
	p.append(t, "1", true)
	if _, err := p.l.Append(t.Context(), make([]byte, 32<<10)); !errors.Is(err, commitlog.ErrTooLarge) {
		t.Error(err)
	}
	p.append(t, "2", true)
	if n := p.l.Live(); n != 3 {
		t.Error(n, "take part")
	}
	p.has(t, "1", "2")
}
