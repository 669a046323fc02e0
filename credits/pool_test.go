package credits_test

import (
	"testing"

	"github.com/stag-rdma/stag/credits"
)

// poolPeer is a client that always has as many calls to make as it wants, seen from the
// server: each of its turns fills the window that it has.
type poolPeer struct {
	s    credits.Share
	p    credits.Responder
	want int
	asks uint32 // in its calls; 0: 2^32-1
}

func joinAll(pool *credits.Pool, wants ...int) []*poolPeer {
	peers := make([]*poolPeer, len(wants))
	for i, w := range wants {
		peers[i] = &poolPeer{want: w, p: credits.NewResponder(1)}
		pool.Join(&peers[i].s)
		post(&peers[i].p)
	}
	return peers
}

// turn makes as many calls as are wanted and permitted, and answers them.
func (c *poolPeer) turn() {
	asked := c.asks
	if asked == 0 {
		asked = 1<<32 - 1
	}
	n := min(c.want, c.p.Outstanding())
	for range n {
		c.p.Received()
		c.s.Seen(c.p.Serving())
	}
	for range n {
		c.p.SetLimit(c.s.Answer(asked, c.p.Outstanding()+c.p.Serving()))
		post(&c.p)
		c.p.Grant(asked)
	}
}

func turns(n int, peers ...*poolPeer) {
	for range n {
		for _, c := range peers {
			c.turn()
		}
	}
}

// limits returns the shares.
func limits(peers []*poolPeer) (n []int) {
	for _, c := range peers {
		n = append(n, c.s.Limit())
	}
	return n
}

// wantLimits checks the bounds of shares and that they fit the pool.
func wantLimits(t *testing.T, pool *credits.Pool, peers []*poolPeer, low, high int) {
	t.Helper()
	for i, c := range peers {
		if n := c.s.Limit(); n < low || n > high {
			t.Errorf("share %d is %d, want %d to %d: %v", i, n, low, high, limits(peers))
		}
	}
	if pool.Held() > pool.Size() {
		t.Errorf("%d credits held of %d", pool.Held(), pool.Size())
	}
}

// Two that fill everything share it equally, though one came long before the other, and a
// third one with less to do gets what it needs.
func TestPoolIsFair(t *testing.T) {
	pool := credits.NewPool(96)
	peers := joinAll(&pool, 1000, 1000, 4)
	turns(20, peers[0])
	wantLimits(t, &pool, peers[:1], 96, 96)
	turns(40, peers...)
	wantLimits(t, &pool, peers[:2], 30, 62)
	wantLimits(t, &pool, peers[2:], 4, 8)
	peers[0].s.Leave()
	if g := peers[0].s.Answer(5, 5); g != 1 {
		t.Errorf("a share that was left grants %d", g)
	}
}

// Three that fill all they get beside 200 with a call now and then: these have one credit
// each, hardly ever two, and those the pool.
func TestPoolBusyAndIdle(t *testing.T) {
	pool := credits.NewPool(96)
	wants := make([]int, 203)
	for i := range wants {
		wants[i] = 1
	}
	peers := joinAll(&pool, wants...)
	turns(8, peers...)
	busy := peers[200:]
	for i, c := range busy {
		c.want = 50 * (i + 1)
	}
	for i := range 400 {
		turns(1, busy...)
		turns(1, peers[i%200])
		if i < 50 {
			continue // until they have grown
		}
		for j, c := range busy {
			if n := c.s.Limit(); n < 12 || n > 50*(j+1) {
				t.Fatalf("turn %d: shares of the busy ones: %v", i, limits(busy))
			}
		}
	}
	wantLimits(t, &pool, peers[:200], 1, 2)
	if held := pool.Held(); held < pool.Size()*3/4 || held > pool.Size() {
		t.Errorf("%d of %d credits held: %v", held, pool.Size(), limits(busy))
	}
	t.Logf("shares of the busy ones: %v, %d of 200 idle ones above 1", limits(busy), pool.Holders()-3)
}

// One call at a time is no reason to keep a second credit: of many such peers few hold one.
func TestPoolSingleCalls(t *testing.T) {
	pool := credits.NewPool(1000)
	wants := make([]int, 200)
	for i := range wants {
		wants[i] = 1
	}
	peers := joinAll(&pool, wants...)
	turns(500, peers...)
	sum := 0
	for i := range 64 {
		turns(1+i%3, peers...)
		sum += pool.Holders()
	}
	if sum > 64*200/10 {
		t.Errorf("%d of 200 hold more than they use, on average", sum/64)
	}
}
