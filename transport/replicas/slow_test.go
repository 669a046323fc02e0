package replicas_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stag-rdma/stag/internal/pmemsim"
)

// gate stops nodes at every store and flush.
type gate struct {
	shut  atomic.Bool
	steps chan struct{}
	over  chan struct{}
}

func (g *gate) step(*pmemsim.Sim) {
	if !g.shut.Load() {
		return
	}
	select {
	case <-g.steps:
	case <-g.over:
	}
}

// pass lets one node go on, if one waits.
func (g *gate) pass() bool {
	select {
	case g.steps <- struct{}{}:
		return true
	case <-time.After(2 * time.Millisecond):
		return false
	}
}

// Replicas that come back are completed one store or flush at a time, and stand still meanwhile: each append, and each
// trim, of the others ends between two of these steps. They catch up nevertheless.
func TestSlowRejoin(t *testing.T) {
	for _, count := range []int{3, 5} {
		t.Run(fmt.Sprint(count), func(t *testing.T) {
			slow := &gate{steps: make(chan struct{}), over: make(chan struct{})}
			var nodes []*node
			var away []int
			for i := range count {
				step := func(*pmemsim.Sim) {}
				if i < count/2 {
					step, away = slow.step, append(away, i)
				}
				n := newNode(t, step)
				t.Cleanup(func() { n.crash(rand.New(rand.NewPCG(1, 1))) })
				nodes = append(nodes, n)
			}
			p := open(t, nodes, away...)
			var want []string
			add := func() {
				t.Helper()
				want = append(want, fmt.Sprint("entry ", len(want)+1))
				ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
				defer cancel()
				if _, err := p.l.Append(ctx, []byte(want[len(want)-1])); err != nil {
					t.Fatalf("append %d waits for a replica that is being completed: %v", len(want), err)
				}
			}
			for range 200 { // more than is in progress at a time
				add()
			}
			slow.shut.Store(true)
			release := sync.OnceFunc(func() { slow.shut.Store(false); close(slow.over) })
			defer release()
			for _, i := range away {
				p.ways[i].set(false)
			}
			steps, first := 0, uint64(1)
			for p.l.Live() < count {
				add()
				if slow.pass() {
					steps++
				}
				if len(want)%7 == 0 {
					first = uint64(len(want) - 150) // entries that are being copied are released
					if err := p.l.Trim(first); err != nil {
						t.Fatal(err)
					}
				}
				if steps > 10_000 {
					t.Fatal("they never catch up")
				}
			}
			t.Logf("%d steps, %d appends", steps, len(want))
			if steps < 20 {
				t.Error("the test has stopped nothing")
			}
			for range 5 { // they take part, and stand still
				add()
			}
			release()
			for i := count / 2; i < count-1; i++ { // the majority is now those that came back, and one more
				p.ways[i].set(true)
				nodes[i].crash(rand.New(rand.NewPCG(2, 2)))
			}
			add()
			open(t, nodes).has(t, want[first-1:]...)
		})
	}
}
