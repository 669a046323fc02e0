package credits_test

import (
	"flag"
	"math/rand/v2"
	"testing"

	"github.com/stag-rdma/stag/credits"
)

var poolSteps = flag.Int("pool.steps", 1_000_000, "steps of TestPoolModel")

// poolClient is a client and its connection to a server whose connections share a pool.
type poolClient struct {
	q       credits.Requester
	p       credits.Responder
	s       credits.Share
	joined  bool
	eager   bool      // makes calls
	waiting int       // calls without a credit
	calls   int       // on their way to the server
	serving []uint32  // rdma_credit of the calls received and not answered
	back    []uint32  // grants on their way to the client
	grant   uint32    // the latest that was sent
	asks    [2]uint32 // what its calls say
}

// poolModel is a server with many clients and everything that is under way.
type poolModel struct {
	t       *testing.T
	rnd     *rand.Rand
	pool    credits.Pool
	clients []*poolClient
	count   map[string]int
}

func newPoolModel(t *testing.T, seed uint64) *poolModel {
	rnd := rand.New(rand.NewPCG(seed, 4))
	m := &poolModel{t: t, rnd: rnd, pool: credits.NewPool(1 + rnd.Uint32N(200)), count: map[string]int{}}
	for range 1 + rnd.IntN(40) {
		m.clients = append(m.clients, new(poolClient))
	}
	return m
}

// connect starts a connection; its calls under way are to be sent again.
func (m *poolModel) connect(c *poolClient) {
	if c.joined {
		c.s.Leave()
		c.waiting += c.q.InFlight()
		m.count["reconnect"]++
	}
	ask := []uint32{0, 1, 1 + m.rnd.Uint32N(100), 1<<32 - 1}
	c.asks = [2]uint32{ask[m.rnd.IntN(4)], ask[m.rnd.IntN(4)]}
	c.q, c.p = credits.NewRequester(1+m.rnd.Uint32N(64)), credits.NewResponder(1)
	c.calls, c.serving, c.back, c.grant, c.joined = 0, nil, nil, 1, true
	m.pool.Join(&c.s)
	c.p.Posted(c.p.Need())
}

func (m *poolModel) step() {
	c := m.clients[m.rnd.IntN(len(m.clients))]
	if !c.joined {
		m.connect(c)
	}
	switch m.rnd.IntN(12) {
	case 0, 1, 2:
		if c.eager {
			c.waiting += m.rnd.IntN(4)
		}
		m.send(c)
	case 3, 4, 5:
		m.arrive(c)
	case 6, 7, 8:
		m.answer(c)
	case 9, 10:
		m.receive(c)
	case 11:
		m.rare(c)
	}
}

func (m *poolModel) send(c *poolClient) {
	for c.waiting > 0 && c.q.Take() {
		c.waiting--
		c.calls++
		m.count["call"]++
	}
}

func (m *poolModel) arrive(c *poolClient) {
	for n := m.rnd.IntN(4); n > 0 && c.calls > 0; n-- {
		c.calls--
		if c.p.Receives() == 0 {
			m.t.Fatal("a call arrives and no receive is posted")
		}
		if !c.p.Received() {
			m.t.Fatal("a call beyond the credits counted")
		}
		c.serving = append(c.serving, c.asks[m.rnd.IntN(2)])
		c.s.Seen(c.p.Serving())
	}
}

func (m *poolModel) answer(c *poolClient) {
	if len(c.serving) == 0 {
		return
	}
	i := m.rnd.IntN(len(c.serving))
	asked := c.serving[i]
	c.serving = append(c.serving[:i], c.serving[i+1:]...)
	c.p.SetLimit(c.s.Answer(asked, c.p.Outstanding()+c.p.Serving()))
	c.p.Posted(c.p.Need())
	g := c.p.Grant(asked)
	if g < 1 || int(g) > c.s.Limit() || g > max(asked, 1) {
		m.t.Fatalf("granted %d, asked for %d, with a limit of %d", g, asked, c.s.Limit())
	}
	if g < c.grant {
		m.count["lowered"]++
	}
	c.grant = g
	c.back = append(c.back, g)
}

func (m *poolModel) receive(c *poolClient) {
	if len(c.back) == 0 {
		return
	}
	c.q.Grant(c.back[0])
	c.q.Release()
	c.back = c.back[1:]
	m.send(c)
}

func (m *poolModel) rare(c *poolClient) {
	switch m.rnd.IntN(100) {
	case 0:
		m.connect(c)
	case 1:
		if c.waiting == 0 && c.q.InFlight() == 0 {
			c.s.Leave()
			c.s.Leave() // twice is once
			c.joined = false
			m.count["left"]++
		}
	case 2, 3, 4, 5:
		c.eager = !c.eager
	}
}

// check looks at the connection and, all of them taken together, at the pool.
func (m *poolModel) check(all bool) {
	var held, granted, ones, members int
	for _, c := range m.clients {
		if !c.joined {
			continue
		}
		members++
		if c.s.Held() > 1 {
			held += c.s.Held()
		} else {
			ones++
		}
		granted += int(c.grant)
		if out := c.p.Outstanding() + c.p.Serving(); out > c.s.Held() {
			m.t.Fatalf("the peer may have %d calls, the pool counts %d", out, c.s.Held())
		}
		if err := c.p.Check(); err != nil {
			m.t.Fatal(err)
		}
		if !all {
			continue
		}
		if c.waiting > 0 && c.q.InFlight() == 0 && c.q.Available() == 0 {
			m.t.Fatal("a call waits, nothing is in flight, and there is no credit")
		}
	}
	if held > m.pool.Size() || held != m.pool.Held() || members != m.pool.Members() || members-ones != m.pool.Holders() {
		m.t.Fatalf("%d credits held by %d of %d: %+v", held, members-ones, members, m.pool)
	}
	if granted > m.pool.Size()+ones {
		m.t.Fatalf("%d credits granted of %d and %d shares of one", granted, m.pool.Size(), ones)
	}
}

// settle lets everything under way come to its end: every call that waits is sent and
// answered, in rounds whose number is bounded by the calls there are.
func (m *poolModel) settle() {
	for _, c := range m.clients {
		for round := c.waiting + c.q.InFlight() + 1; c.joined && c.waiting+c.q.InFlight() > 0; round-- {
			if round == 0 {
				m.t.Fatalf("%d calls wait for ever", c.waiting)
			}
			m.send(c)
			for c.calls > 0 {
				m.arrive(c)
			}
			for len(c.serving) > 0 {
				m.answer(c)
			}
			for len(c.back) > 0 {
				m.receive(c)
			}
		}
	}
}

// TestPoolModel: in every interleaving no connection may have more under way than receives
// are posted, all together no more than the pool and one for each share of one, and every
// call that waits is sent in the end. -pool.steps makes it longer.
func TestPoolModel(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	count := map[string]int{}
	for left := *poolSteps; left > 0; seed++ {
		n := min(left, 50_000)
		left -= n
		m := newPoolModel(t, seed)
		for i := range n {
			m.step()
			m.check(i%16 == 0)
		}
		m.settle()
		m.check(true)
		for k, v := range m.count {
			count[k] += v
		}
	}
	t.Log(count)
	if n := *poolSteps; n >= 100_000 && (count["call"] < n/20 || count["lowered"] < n/1000 || count["reconnect"] < n/10_000 || count["left"] < n/100_000) {
		t.Errorf("little happened: %v", count)
	}
}
