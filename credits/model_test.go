package credits_test

import (
	"math/rand/v2"
	"testing"

	"github.com/stag-rdma/stag/credits"
)

// model is a client and a server with everything that is under way between
// them, in the order of one reliable connection each way.
type model struct {
	t      *testing.T
	rnd    *rand.Rand
	q      credits.Requester
	p      credits.Responder
	calls  []message // on their way to the server
	served []message // received, not answered
	back   []message // on their way to the client
	dones  int       // RDMA_DONEs that the client owes
	due    int       // RDMA_DONEs that may still arrive
	keep   bool      // the client keeps a credit for them
	count  map[string]int
}

type message struct {
	grant       uint32
	done, pulls bool // an RDMA_DONE; a reply that asks for one
}

func newModel(t *testing.T, seed uint64, keepDone bool) *model {
	m := &model{t: t, rnd: rand.New(rand.NewPCG(seed, 2)), keep: keepDone, count: map[string]int{}}
	m.connect()
	return m
}

func (m *model) connect() {
	m.q, m.p = credits.NewRequester(1+m.rnd.Uint32N(40)), credits.NewResponder(1+m.rnd.Uint32N(40))
	if m.q.Release() {
		m.t.Fatal("a credit back, and none was taken")
	}
	m.q.KeepDone(m.keep)
	m.p.Posted(m.p.Need())
}

// check compares both machines with what is really under way.
func (m *model) check() {
	m.t.Helper()
	if err := m.p.Check(); err != nil {
		m.t.Fatal(err)
	}
	arriving, others := 0, 0
	for _, c := range m.calls {
		if c.done {
			others++
		} else {
			arriving++
		}
	}
	may := arriving + m.q.Available() // the client may send that much now
	if may > m.p.Outstanding() {
		m.t.Fatalf("%d calls may arrive, the server counts %d", may, m.p.Outstanding())
	}
	if arriving+others > m.p.Receives() {
		m.t.Fatalf("%d messages under way, %d receives", arriving+others, m.p.Receives())
	}
	if m.q.InFlight() == 0 && m.q.Available() == 0 {
		m.t.Fatal("nothing in flight and no credit: the window closed for good")
	}
}

// step does one thing that may happen now.
func (m *model) step() {
	switch m.rnd.IntN(16) {
	case 0, 1, 2, 3:
		m.send()
	case 4, 5, 6:
		m.arrive()
	case 7:
		m.post()
	case 8, 9, 10:
		m.answer()
	case 11, 12, 13:
		m.receive()
	case 14:
		m.finishPull()
	case 15:
		m.rare()
	}
}

func (m *model) send() {
	if m.q.Take() {
		m.calls = append(m.calls, message{})
		m.count["call"]++
	}
}

// arrive takes one message into a receive of the server.
func (m *model) arrive() {
	if len(m.calls) == 0 {
		return
	}
	if m.p.Receives() == 0 {
		m.t.Fatal("a message arrives and no receive is posted")
	}
	c := m.calls[0]
	m.calls = m.calls[1:]
	switch {
	case c.done && !m.p.ReceivedOther():
		m.t.Fatal("an RDMA_DONE that was not expected")
	case c.done:
		m.due--
		m.count["done"]++
	case !m.p.Received():
		m.t.Fatal("a call beyond the credits counted")
	default:
		m.served = append(m.served, c)
	}
}

// post posts again some of what is due: late, and not at once.
func (m *model) post() {
	m.p.Posted(m.rnd.IntN(m.p.Need() + 1))
}

// answer replies to any of the calls being served: handlers finish in any
// order. The rule is kept: receives first, then the grant.
func (m *model) answer() {
	if len(m.served) == 0 {
		return
	}
	i := m.rnd.IntN(len(m.served))
	r := m.served[i]
	m.served = append(m.served[:i], m.served[i+1:]...)
	if r.pulls = m.keep && m.rnd.IntN(4) == 0; r.pulls {
		m.p.Expect(1)
		m.due++
	}
	if m.rnd.IntN(2) == 0 || m.p.Outstanding()+m.due >= m.p.Receives() {
		m.p.Posted(m.p.Need()) // else there are enough for what is out and one more
	}
	r.grant = m.p.Grant(m.q.Request())
	if r.grant == 0 {
		m.t.Fatal("a grant of zero")
	}
	m.back = append(m.back, r)
}

func (m *model) receive() {
	if len(m.back) == 0 {
		return
	}
	r := m.back[0]
	m.back = m.back[1:]
	m.q.Grant(r.grant)
	if !m.q.Release() {
		m.t.Fatal("a reply to a call that is not in flight")
	}
	if r.pulls {
		m.dones++
	}
}

func (m *model) finishPull() {
	if m.dones > 0 && m.q.TakeDone() {
		m.dones--
		m.calls = append(m.calls, message{done: true})
	}
}

// rare changes limits, and begins a connection anew.
func (m *model) rare() {
	switch m.rnd.IntN(20) {
	case 0, 1, 2:
		limits := []uint32{0, 1, 2, m.rnd.Uint32N(100), 64}
		m.p.SetLimit(limits[m.rnd.IntN(len(limits))])
		m.count["limit"]++
	case 3:
		m.calls, m.served, m.back, m.dones, m.due = nil, nil, nil, 0, 0
		m.connect()
		m.count["reconnect"]++
	}
}

// Random interleavings of everything above.
func TestModel(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	for _, keepDone := range []bool{false, true} {
		m := newModel(t, seed, keepDone)
		for range 100_000 {
			m.step()
			m.check()
		}
		if m.count["call"] < 5_000 || m.count["limit"] < 100 || m.count["reconnect"] < 50 {
			t.Errorf("little happened: %v", m.count)
		}
		if keepDone && m.count["done"] < 100 {
			t.Errorf("few RDMA_DONEs: %v", m.count)
		}
	}
}
