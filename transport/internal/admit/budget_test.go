package admit_test

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stag-rdma/stag/transport/internal/admit"
)

const noLimit = 1 << 40

func config() admit.BudgetConfig {
	return admit.BudgetConfig{
		Conns: 100, Limit: 1000, Spare: 250, Pulls: 100,
		Patience: 30 * time.Second, Hurry: 2 * time.Second, Rate: 10,
	}
}

var open = admit.Limits{Conns: 100, Limit: noLimit, Pulls: 1000, Exposed: noLimit}

// call is a call with its ticket. order collects those that were granted after a wait.
type call struct {
	admit.Ticket
	id    int
	order *[]int
}

func (c *call) Granted() { *c.order = append(*c.order, c.id) }

func enter(t *testing.T, g *admit.Budget, addr string, l admit.Limits, m admit.Mover) *admit.Peer {
	t.Helper()
	p, v := g.Enter(addr, l, m)
	if v != admit.Admitted {
		t.Fatalf("refused: %d", v)
	}
	return p
}

func TestFirstComeFirstServed(t *testing.T) {
	cfg := config()
	cfg.Limit, cfg.Spare = 10, 0
	g := admit.NewBudget(cfg)
	p := enter(t, g, "a", open, nil)
	var order []int
	calls := make([]call, 4)
	for i := range calls {
		calls[i] = call{p.Ticket(), i, &order}
	}
	if !calls[0].Acquire(8, false, &calls[0]) || calls[1].Acquire(4, false, &calls[1]) || calls[2].Acquire(1, false, &calls[2]) {
		t.Fatal("of 10 octets, 8 must be there, 4 must wait, and 1 must not overtake")
	}
	if calls[3].Try(1, false) {
		t.Error("a new call overtakes those that wait")
	}
	if s := g.Stats(); s.Waiting != 2 || s.Waited != 2 || s.Held != 8 {
		t.Errorf("%+v", s)
	}
	calls[0].Add(-2)
	calls[0].Release()
	if !slices.Equal(order, []int{1, 2}) {
		t.Errorf("granted in the order %v", order)
	}
	calls[1].Add(20)
	if p.Open() || calls[3].Acquire(0, false, &calls[3]) {
		t.Error("a call goes on though the rest is overdrawn")
	}
	if calls[2].Withdraw() || !calls[3].Withdraw() {
		t.Error("only a call that waits can be withdrawn")
	}
}

func TestConnections(t *testing.T) {
	cfg := config()
	cfg.Conns = 3
	g := admit.NewBudget(cfg)
	one := open
	one.Conns = 2
	a := enter(t, g, "a", one, nil)
	enter(t, g, "a", one, nil)
	if _, v := g.Enter("a", one, nil); v != admit.ClientTooMany {
		t.Errorf("a third one of a client: %d", v)
	}
	enter(t, g, "b", one, nil)
	if _, v := g.Enter("c", one, nil); v != admit.TooMany {
		t.Errorf("a fourth one: %d", v)
	}
	a.Leave()
	enter(t, g, "c", one, nil).Leave()
	if s := g.Stats(); s.Conns != 2 || s.Clients != 2 {
		t.Errorf("%+v: a client without connections leaves something behind", s)
	}
}

// TestSpare: connections that hold nothing get memory when the others may have no more, and a place to
// pull when all are taken.
func TestSpare(t *testing.T) {
	cfg := config()
	cfg.Pulls = 3
	g := admit.NewBudget(cfg)
	p, q := enter(t, g, "a", open, nil), enter(t, g, "b", open, nil)
	var order []int
	calls := make([]call, 5)
	for i := range calls {
		calls[i] = call{p.Ticket(), i, &order}
	}
	calls[4] = call{q.Ticket(), 4, &order}
	for i := range 3 {
		if !calls[i].Try(250, true) {
			t.Fatalf("call %d waits", i)
		}
	}
	if calls[3].Acquire(100, true, &calls[3]) {
		t.Fatal("a busy connection takes what is spared")
	}
	if !calls[4].Try(250, true) {
		t.Fatal("a connection that holds nothing waits")
	}
	calls[4].Release()
	for i := range 3 {
		calls[i].Pulled() // the places, not the octets
	}
	if len(order) != 0 {
		t.Fatal("granted though only what is spared is left")
	}
	for i := range 3 {
		calls[i].Release()
	}
	if !slices.Equal(order, []int{3}) {
		t.Errorf("granted %v", order)
	}
}

// TestSmall: tickets that ask for little do not wait for those that ask for more, nor these for nothing.
func TestSmall(t *testing.T) {
	cfg := config()
	cfg.Spare, cfg.Reserve, cfg.Small = 200, 100, 10
	g := admit.NewBudget(cfg)
	var order []int
	var calls []*call
	ask := func(p *admit.Peer, n int) bool {
		c := &call{p.Ticket(), len(calls), &order}
		calls = append(calls, c)
		return c.Acquire(n, false, c)
	}
	p, q := enter(t, g, "a", open, nil), enter(t, g, "b", open, nil)
	if !ask(p, 700) || ask(p, 100) || !ask(q, 200) || ask(q, 50) {
		t.Fatal("700 for busy connections, 200 for idle ones")
	}
	for range 10 {
		if !ask(p, 10) {
			t.Fatal("a small one waits")
		}
	}
	if ask(p, 10) || !p.Open() {
		t.Error("small ones have no more than there is")
	}
	calls[5].Release()
	if !slices.Equal(order, []int{14}) {
		t.Errorf("granted %v", order)
	}
	calls[0].Release()
	if !slices.Equal(order, []int{14, 1, 3}) {
		t.Errorf("granted %v", order)
	}
}

// TestAllWait: if all that is held is held by calls that wait, the first goes on.
func TestAllWait(t *testing.T) {
	g := admit.NewBudget(config())
	p := enter(t, g, "a", open, nil)
	var order []int
	calls := make([]call, 3)
	for i := range calls {
		calls[i] = call{p.Ticket(), i, &order}
	}
	calls[0].Add(600)
	calls[1].Add(600)
	calls[2].Add(600)
	for i := range calls {
		if calls[i].Acquire(10, false, &calls[i]) {
			t.Errorf("call %d goes on", i)
		}
	}
	// The last one to wait has left nobody active: the first was granted then.
	if !slices.Equal(order, []int{0}) {
		t.Fatalf("granted %v", order)
	}
	calls[0].Release()
	calls[1].Release()
	calls[2].Release()
	if s := g.Stats(); s.Held != 0 || s.Waiting != 0 {
		t.Errorf("%+v", s)
	}
}

// TestModel lets random calls of random clients come, be pulled, answered and forgotten. At every step
// what is held is what was granted, no client and not all together have more than there is, apart from
// what was added, nobody waits if nobody goes on, and at the end all is back.
func TestModel(t *testing.T) {
	for seed := range uint64(300) {
		rnd := rand.New(rand.NewPCG(seed, 7))
		cfg := config()
		cfg.Limit, cfg.Spare, cfg.Pulls = 500, 120, 4
		g := admit.NewBudget(cfg)
		limits := admit.Limits{Conns: 9, Limit: 300, Pulls: 3}
		var peers []*admit.Peer
		for i := range 6 {
			peers = append(peers, enter(t, g, string(rune('a'+i/2)), limits, nil))
		}
		type job struct {
			call
			peer    int
			added   int
			waits   bool
			granted bool
		}
		var order []int
		var all []*job
		settle := func() {
			for _, id := range order {
				all[id].waits, all[id].granted = false, true
			}
			order = order[:0]
		}
		active := func() (list []*job) {
			for _, j := range all {
				if j.granted {
					list = append(list, j)
				}
			}
			return list
		}
		check := func(what string) {
			t.Helper()
			settle()
			held, added, waiting := 0, 0, 0
			var client [3]int
			for _, j := range all {
				held += j.Octets()
				added += j.added
				client[j.peer/2] += j.Octets() - j.added
				if j.waits {
					waiting++
				}
			}
			s := g.Stats()
			switch {
			case int(s.Held) != held || s.Waiting != waiting:
				t.Fatalf("seed %d, %s: %+v, want %d held, %d waiting", seed, what, s, held, waiting)
			case held-added > 500:
				t.Fatalf("seed %d, %s: %d held", seed, what, held)
			case len(active()) == 0 && waiting > 0:
				t.Fatalf("seed %d, %s: all wait", seed, what)
			}
			for i, n := range client {
				if n > 300 {
					t.Fatalf("seed %d, %s: client %d holds %d", seed, what, i, n)
				}
			}
		}
		for range 400 {
			going := active()
			switch op := rnd.IntN(10); {
			case op < 5 || len(going) == 0:
				j := &job{peer: rnd.IntN(6), waits: true}
				j.call = call{peers[j.peer].Ticket(), len(all), &order}
				all = append(all, j)
				if j.Acquire(1+rnd.IntN(100), rnd.IntN(2) == 0, j) {
					j.waits, j.granted = false, true
				}
				check("acquire")
			case op < 6:
				going[rnd.IntN(len(going))].Pulled()
				check("pulled")
			case op == 6:
				j := going[rnd.IntN(len(going))]
				n := rnd.IntN(50)
				j.Add(n)
				j.added += n
				check("add")
			case op == 7:
				k := rnd.IntN(6)
				for _, w := range peers[k].Cancel() {
					w.(*job).waits = false
				}
				check("cancel")
			default:
				j := going[rnd.IntN(len(going))]
				j.granted, j.added = false, 0
				j.Release()
				check("release")
			}
		}
		for list := active(); len(list) > 0; list = active() {
			list[0].granted, list[0].added = false, 0
			list[0].Release()
			check("end")
		}
		if s := g.Stats(); s.Held != 0 || s.Waiting != 0 || s.Pulls != 0 {
			t.Fatalf("seed %d: at the end %+v", seed, s)
		}
	}
}

// mover is a connection that the test moves.
type mover struct {
	moved [4]uint64
	cut   []admit.Flow
}

func (m *mover) Moved(f admit.Flow) uint64 { return m.moved[f] }
func (m *mover) Cut(f admit.Flow)          { m.cut = append(m.cut, f) }

// TestPatience: a peer that moves at least Config.Rate stays, one that moves less is cut after
// Config.Patience, or after Config.Hurry while others wait, and each wait that ends counts as progress.
func TestPatience(t *testing.T) {
	for name, tt := range map[string]struct {
		rate   uint64 // octets per half second
		ends   bool   // one of two waits ends every ten seconds
		others bool   // others wait
		want   time.Duration
	}{
		"fast":             {rate: 5, want: 0},
		"slow":             {rate: 4, want: 30 * time.Second},
		"silent":           {want: 30 * time.Second},
		"in many pieces":   {ends: true, want: 0},
		"fast in a hurry":  {rate: 5, others: true, want: 0},
		"slow in a hurry":  {rate: 4, others: true, want: 2 * time.Second},
		"silent, in hurry": {others: true, want: 2 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			g := admit.NewBudget(config())
			m := new(mover)
			p, q := enter(t, g, "a", open, m), enter(t, g, "b", open, nil)
			var order []int
			tickets := [4]call{{p.Ticket(), 0, &order}, {p.Ticket(), 1, &order}, {q.Ticket(), 2, &order}, {q.Ticket(), 3, &order}}
			tickets[0].Acquire(100, true, &tickets[0])
			if !tickets[0].Await(admit.Pulling, 0) || tickets[1].Await(admit.Pulling, 0) {
				t.Fatal("the first flow asks for a watch, others do not")
			}
			if tt.others {
				tickets[2].Acquire(600, false, &tickets[2])
				tickets[3].Acquire(600, false, &tickets[3])
			}
			now := time.Unix(1, 0)
			for i := range 200 {
				m.moved[admit.Pulling] += tt.rate
				if tt.ends && i%20 == 19 {
					tickets[1].Await(admit.Still, 0)
					tickets[1].Await(admit.Pulling, 0)
				}
				at := time.Duration(i) * 500 * time.Millisecond
				n, more := g.Look(now.Add(at))
				if n != len(m.cut) || !more {
					t.Fatalf("%d cut, counted %d", len(m.cut), n)
				}
				if n > 0 {
					if at != tt.want {
						t.Errorf("cut after %v, want %v", at, tt.want)
					}
					break
				}
			}
			if (len(m.cut) > 0) != (tt.want > 0) {
				t.Errorf("cut %v", m.cut)
			}
			tickets[0].Release()
			tickets[1].Release()
			if _, more := g.Look(now); more {
				t.Error("watched after the last wait")
			}
		})
	}
}

// TestSlowestFirst: while others wait, of the peers that are too slow those are cut that have been so for longest, and
// no more than hold what is wanted. What a client's own share lacks, its own connections give.
func TestSlowestFirst(t *testing.T) {
	cfg := config()
	cfg.Spare = 0
	g := admit.NewBudget(cfg)
	little := admit.Limits{Conns: 10, Limit: 100, Pulls: 10, Exposed: 10}
	var order []int
	var movers [6]mover
	var tickets [6]call
	now := time.Unix(1, 0)
	for i := range movers {
		addr, l := "a", open
		if i == 5 {
			addr, l = "b", little
		}
		tickets[i] = call{enter(t, g, addr, l, &movers[i]).Ticket(), i, &order}
		if !tickets[i].Try(100, false) {
			t.Fatal("no memory")
		}
		tickets[i].Await(admit.Arriving, 0)
		g.Look(now)
		now = now.Add(time.Second)
	}
	look := func(want ...int) {
		t.Helper()
		now = now.Add(500 * time.Millisecond)
		g.Look(now)
		for i := range movers {
			if cut := len(movers[i].cut) > 0; cut != slices.Contains(want, i) {
				t.Errorf("peer %d cut: %v", i, cut)
			}
		}
	}
	movers[0].moved[admit.Arriving] += 100 // it is on its way again
	look()
	own := call{enter(t, g, "b", little, nil).Ticket(), 6, &order}
	own.Acquire(10, false, &own)
	now = now.Add(time.Second)
	look(5)
	other := call{enter(t, g, "c", open, nil).Ticket(), 7, &order}
	other.Acquire(550, false, &other)
	look(1, 5)
	look(1, 5)
	tickets[1].Release()
	tickets[5].Release()
	if !slices.Equal(order, []int{6, 7}) {
		t.Errorf("granted: %v", order)
	}
	movers[0].moved[admit.Arriving] += 100
	now = now.Add(time.Minute - time.Second)
	look(0, 1, 2, 3, 4, 5) // for want of patience
}

// TestConnsTakeMemory: connections beyond Config.FreeConns leave less for calls, but half of it, and give it back.
func TestConnsTakeMemory(t *testing.T) {
	cfg := config()
	cfg.Spare, cfg.FreeConns, cfg.ConnCost = 0, 2, 100
	g := admit.NewBudget(cfg)
	var order []int
	large := call{enter(t, g, "a", open, nil).Ticket(), 1, &order}
	if !large.Try(1000, false) {
		t.Fatal("two connections take nothing")
	}
	large.Release()
	var peers []*admit.Peer
	for range 9 {
		peers = append(peers, enter(t, g, "b", open, nil))
	}
	half := call{peers[0].Ticket(), 2, &order}
	if !half.Try(500, false) {
		t.Fatal("connections take more than half")
	}
	if large.Acquire(400, false, &large) {
		t.Fatal("connections take nothing")
	}
	for i, p := range peers[1:] {
		if len(order) != 0 {
			t.Fatalf("granted when %d had left", i)
		}
		p.Leave()
		if i == 6 {
			break
		}
	}
	if s := g.Stats(); len(order) != 1 || s.Held != 900 {
		t.Errorf("granted %v, %+v", order, s)
	}
}

// TestTurns: a client with one call does not wait for all calls of another, on however many connections.
func TestTurns(t *testing.T) {
	cfg := config()
	cfg.Limit, cfg.Spare = 10, 0
	g := admit.NewBudget(cfg)
	var order []int
	first := call{enter(t, g, "a", open, nil).Ticket(), 0, &order}
	if !first.Try(10, false) {
		t.Fatal("no memory")
	}
	var calls []*call
	wait := func(addr string, id int) {
		c := &call{enter(t, g, addr, open, nil).Ticket(), id, &order}
		if c.Acquire(10, false, c) {
			t.Fatal("there is memory")
		}
		calls = append(calls, c)
	}
	for i := range 4 {
		wait("a", i)
	}
	wait("b", 10)
	wait("b", 11)
	first.Release()
	wait("c", 20)
	for len(order) < 7 {
		n := len(order)
		for _, c := range calls {
			if c.id == order[n-1] {
				c.Release()
			}
		}
		if len(order) != n+1 {
			t.Fatalf("%d granted after %v", len(order)-n, order)
		}
	}
	if want := []int{0, 10, 20, 1, 11, 2, 3}; !slices.Equal(order, want) {
		t.Errorf("granted %v, want %v", order, want)
	}
}
