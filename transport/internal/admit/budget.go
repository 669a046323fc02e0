package admit

import (
	"sync/atomic"
	"time"

	"github.com/stag-rdma/stag/internal/shared"
)

// BudgetConfig limits a Budget. All limits are positive.
type BudgetConfig struct {
	Conns int   // connections
	Limit int64 // octets held by all tickets together
	Spare int64 // of these, only for connections that hold nothing else
	Pulls int   // tickets whose chunks are pulled

	// Each connection beyond FreeConns takes ConnCost of Limit, together at most half of it.
	FreeConns int
	ConnCost  int64

	// Reserve is a part of Limit that only tickets use which ask for at most Small octets, and for no pull:
	// they do not wait for others that ask for more.
	Reserve, Small int64

	// Patience is how long a peer may move less than Rate, in octets per second, while a ticket waits for
	// it; Hurry is how long while other tickets wait for memory.
	Patience, Hurry time.Duration
	Rate            int64
}

// Limits restricts one client.
type Limits struct {
	Conns int
	Limit int64
	Pulls int

	Exposed int64 // octets of replies that the client may read; see Peer.Expose
}

// Verdict says whether a connection is admitted.
type Verdict uint8

// Verdicts of Enter.
const (
	Admitted      Verdict = iota
	TooMany               // connections of all
	ClientTooMany         // connections of this client
)

// Budget admits connections and calls. It is safe for concurrent use.
type Budget struct {
	cfg    BudgetConfig
	free   atomic.Int64 // octets; negative after Add. It changes under mu
	queued atomic.Int32 // tickets that wait, in all queues

	mu      shared.Mutex
	conns   int
	charged int64 // octets of Limit that connections take
	clients map[string]*client
	pulls   int       // how many more tickets may pull
	queue   []*Ticket // in state ForAll, by turn
	turn    uint64    // of the last that was granted there
	active  int       // tickets that hold something and do not wait
	wanted  int64     // octets that those ask for
	lone    int       // peers with tickets in queue that hold nothing
	small   int       // tickets in queue that ask for little
	waited  uint64
	pulling int
	watched map[*Peer]struct{} // with tickets that wait for the peer
}

// client is an address that has connections, and what it may still take.
type client struct {
	addr   string
	limits Limits
	conns  int
	free   atomic.Int64 // changes under Budget.mu
	pulls  int
	queue  []*Ticket // in state ForClient
	wanted int64     // octets that those ask for
	active int       // tickets that hold something and do not wait
	passed int       // tickets in state ForAll
	turn   uint64    // of the last of these

	exposed atomic.Int64 // octets of replies that the client may read
}

// Peer is an admitted connection.
type Peer struct {
	budget  *Budget
	client  *client
	octets  int // of its tickets
	holding int // tickets that hold something, also those that wait
	waiting int // tickets in state ForAll

	watch watch
}

// NewBudget returns a Budget.
func NewBudget(cfg BudgetConfig) *Budget {
	b := &Budget{cfg: cfg, pulls: cfg.Pulls, clients: make(map[string]*client), watched: make(map[*Peer]struct{})}
	b.free.Store(cfg.Limit)
	return b
}

// Enter admits a connection from addr, whose client has these limits. m tells what the connection moves;
// nil means that no ticket of it will wait for its peer. The caller calls Leave when it has ended.
func (b *Budget) Enter(addr string, l Limits, m Mover) (*Peer, Verdict) {
	b.mu.Lock()
	defer b.mu.Unlock()
	cl := b.clients[addr]
	if cl == nil {
		cl = &client{addr: addr, limits: l, pulls: l.Pulls}
		cl.free.Store(l.Limit)
	}
	switch {
	case b.conns >= b.cfg.Conns:
		return nil, TooMany
	case cl.conns >= l.Conns:
		return nil, ClientTooMany
	}
	b.clients[addr] = cl // only now: refused addresses must not take memory
	cl.conns++
	b.connect(1)
	return &Peer{budget: b, client: cl, watch: watch{mover: m}}, Admitted
}

// Leave gives the place of a connection back. Its tickets are released, or will be.
func (p *Peer) Leave() {
	b := p.budget
	var list []*Ticket
	b.mu.Lock()
	defer b.unlock(&list)
	if b.connect(-1) {
		list = b.ready(p.client)
	}
	// Tickets that are released later have the client by its pointer, whoever has the address then.
	if p.client.conns--; p.client.conns == 0 && b.clients[p.client.addr] == p.client {
		delete(b.clients, p.client.addr)
	}
}

// connect counts n more connections, and reports whether they give octets back.
func (b *Budget) connect(n int) bool {
	b.conns += n
	was := b.charged
	// At most half: however many rest, those that call have something to call with.
	b.charged = min(int64(max(b.conns-b.cfg.FreeConns, 0))*b.cfg.ConnCost, b.cfg.Limit/2)
	b.free.Add(was - b.charged)
	return b.charged < was
}

// Addr returns the client's address, as given to Enter.
func (p *Peer) Addr() string { return p.client.addr }

// Expose counts n more octets of replies that wait to be read by the client, and reports whether they are
// within its limit. They count in any case, until Expose(-n).
func (p *Peer) Expose(n int64) bool {
	return p.client.exposed.Add(n) <= p.client.limits.Exposed || n <= 0
}

// Limits returns the limits given to Enter.
func (p *Peer) Limits() Limits { return p.client.limits }

// Open reports whether calls that need no octets need not wait: not more is overdrawn than the Reserve.
func (p *Peer) Open() bool {
	return p.budget.free.Load() >= -p.budget.cfg.Reserve && p.client.free.Load() >= -p.budget.cfg.Reserve
}

// Stats is what a Budget holds now, and has made wait.
type Stats struct {
	Conns, Waiting, Pulls int
	Held                  int64  // octets of tickets
	Waited                uint64 // tickets that had to wait, since the beginning
	Clients               int
}

// Stats returns a snapshot.
func (b *Budget) Stats() Stats {
	b.mu.Lock()
	defer b.mu.Unlock()
	return Stats{
		Conns: b.conns, Waiting: int(b.queued.Load()), Pulls: b.pulling, Held: b.cfg.Limit - b.charged - b.free.Load(),
		Waited: b.waited, Clients: len(b.clients),
	}
}
