package admit

import (
	"cmp"
	"slices"
	"time"
)

// Flow says what a ticket waits for its peer to do.
type Flow uint8

// Flows of a ticket.
const (
	Still    Flow = iota // nothing: the server has the next step
	Pulling              // to answer RDMA Reads
	Arriving             // to send the rest of a record or an FPDU
	Leaving              // to read a reply
	flows
)

// Mover is a connection whose octets are counted.
type Mover interface {
	// Moved returns how many octets of answers to RDMA Reads have come, how many octets have come, or how
	// many have gone, since the beginning. It
	// must not block, nor call the Budget.
	Moved(Flow) uint64
	// Cut ends the connection, whose peer did not do in time what f says. It must not block, nor call the
	// Budget.
	Cut(f Flow)
}

// watch notices when a peer moves too little. It changes under Budget.mu.
type watch struct {
	mover   Mover
	tickets [flows]int32
	cut     bool
	windows *[flows]window // made by Look: most connections rest, and most waits end before it comes
}

// window is a time in which a peer has to move enough.
type window struct {
	begun bool      // the times below are set
	since time.Time // it began
	at    uint64    // what had moved then
	slow  time.Time // since then less has moved than is due in BudgetConfig.Hurry
	seen  uint64    // what had moved then
}

// Await notes what t waits for its peer to do, and that it holds n more octets, as with Add. It reports
// whether somebody has to call Look from now on.
func (t *Ticket) Await(f Flow, n int) (first bool) {
	b := t.peer.budget
	b.mu.Lock()
	defer b.mu.Unlock()
	if n > 0 {
		t.add(n)
	}
	before := len(b.watched) // no clock runs while nobody waits
	t.setFlow(f)
	return before == 0 && len(b.watched) == 1
}

func (t *Ticket) setFlow(f Flow) {
	p := t.peer
	if t.flow == f || p.watch.mover == nil {
		return
	}
	w := &p.watch
	if t.flow != Still {
		// Peers answer in order, so the end of one wait is progress in all that remain.
		w.tickets[t.flow]--
		if w.windows != nil {
			w.windows[t.flow].begun = false
		}
	}
	if t.flow = f; f != Still {
		w.tickets[f]++
	}
	if w.tickets == [flows]int32{} {
		delete(p.budget.watched, p)
		w.windows = nil
		return
	}
	p.budget.watched[p] = struct{}{}
}

// Look cuts the peers that move too little at the given time, and returns how many, and whether there is
// anything left to look at. It is called a few times within BudgetConfig.Hurry.
func (b *Budget) Look(now time.Time) (cut int, more bool) {
	type late struct {
		p    *Peer
		f    Flow
		slow time.Time
	}
	var list, slow []late
	func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		hurry := b.queued.Load() > 0 // somebody waits for what slow peers hold
		for p := range b.watched {
			if p.watch.cut {
				continue
			}
			for f := Pulling; f < flows; f++ {
				if p.watch.tickets[f] == 0 {
					continue
				}
				since, over := p.look(f, now)
				switch l := (late{p, f, since}); {
				case over:
					p.watch.cut = true
					list = append(list, l)
				case hurry && now.Sub(since) >= b.cfg.Hurry:
					slow = append(slow, l)
				}
			}
		}
		// The slowest first, and of two that are as slow the one that holds more: few have to go.
		slices.SortFunc(slow, func(a, b late) int { return cmp.Or(a.slow.Compare(b.slow), b.p.octets-a.p.octets) })
		short := b.shortage()
		for _, l := range slow {
			if !l.p.watch.cut && short.covers(l.p) {
				l.p.watch.cut = true
				list = append(list, l)
			}
		}
		more = len(b.watched) > 0
	}()
	for _, l := range list { // without the lock, which a connection that ends takes
		l.p.watch.mover.Cut(l.f)
	}
	return len(list), more
}

// shortage is what waiting tickets lack, of all and of their clients, less what peers hold that are cut already.
type shortage struct {
	all    int64
	client map[*client]int64
}

func (b *Budget) shortage() shortage {
	// It is at least one octet, since what they lack may also be a place among the pulls.
	s := shortage{client: make(map[*client]int64)}
	if b.wanted > 0 {
		s.all = max(b.wanted+b.cfg.Spare+b.cfg.Reserve-b.free.Load(), 1)
	}
	for p := range b.watched {
		if cl := p.client; cl.wanted > 0 {
			s.client[cl] = max(cl.wanted-cl.free.Load(), 1)
		}
	}
	for p := range b.watched {
		if p.watch.cut {
			s.covers(p)
		}
	}
	return s
}

// covers reports whether what p holds would make up for some of what is lacking, and takes it for that.
func (s *shortage) covers(p *Peer) bool {
	if s.all <= 0 && s.client[p.client] <= 0 {
		return false
	}
	s.all -= int64(p.octets)
	s.client[p.client] -= int64(p.octets)
	return true
}

// look returns since when the peer has moved less of f than is due in BudgetConfig.Hurry, and whether it has moved
// too little for BudgetConfig.Patience. A window begins when it is first looked at, so that no clock is read when a
// call begins.
func (p *Peer) look(f Flow, now time.Time) (slow time.Time, over bool) {
	if p.watch.windows == nil {
		p.watch.windows = new([flows]window)
	}
	cfg, w := &p.budget.cfg, &p.watch.windows[f]
	moved := p.watch.mover.Moved(f)
	if !w.begun {
		*w = window{true, now, moved, now, moved}
		return now, false
	}
	// The octets of the connection, not of one call: peers answer in order, so progress of any is progress of all.
	if moved-w.seen >= cfg.due(cfg.Hurry) {
		w.slow, w.seen = now, moved
	}
	if d := now.Sub(w.since); d >= cfg.Patience {
		if moved-w.at < cfg.due(d) {
			return w.slow, true
		}
		w.since, w.at = now, moved
	}
	return w.slow, false
}

// due returns how many octets a peer has to move in that time.
func (c *BudgetConfig) due(d time.Duration) uint64 { return uint64(float64(c.Rate) * d.Seconds()) }
