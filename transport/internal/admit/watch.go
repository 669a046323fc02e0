package admit

import "time"

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
	// must not block, nor call the Gate.
	Moved(Flow) uint64
	// Cut ends the connection, whose peer did not do in time what f says. It must not block, nor call the
	// Gate.
	Cut(f Flow)
}

// watch notices when a peer moves too little. It changes under Gate.mu.
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
	idle  time.Time // something has moved last
	seen  uint64    // what had moved then
}

// Await notes what t waits for its peer to do, and that it holds n more octets, as with Add. It reports
// whether somebody has to call Look from now on.
func (t *Ticket) Await(f Flow, n int) (first bool) {
	g := t.peer.gate
	g.mu.Lock()
	defer g.mu.Unlock()
	if n > 0 {
		t.add(n)
	}
	before := len(g.watched)
	t.setFlow(f)
	return before == 0 && len(g.watched) == 1
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
		delete(p.gate.watched, p)
		w.windows = nil
		return
	}
	p.gate.watched[p] = struct{}{}
}

// Look cuts the peers that move too little at the given time, and returns how many, and whether there is
// anything left to look at. It is called a few times within Config.Hurry.
func (g *Gate) Look(now time.Time) (cut int, more bool) {
	g.mu.Lock()
	hurry := g.queued.Load() > 0
	type late struct {
		p *Peer
		f Flow
	}
	var list []late
	for p := range g.watched {
		for f := Pulling; f < flows; f++ {
			if p.watch.tickets[f] > 0 && !p.watch.cut && p.late(f, now, hurry) {
				p.watch.cut = true
				list = append(list, late{p, f})
			}
		}
	}
	more = len(g.watched) > 0
	g.mu.Unlock()
	for _, l := range list {
		l.p.watch.mover.Cut(l.f)
	}
	return len(list), more
}

// late reports whether the peer has moved too little of f. A window begins when it is first looked at, so
// that no clock is read when a call begins.
func (p *Peer) late(f Flow, now time.Time, hurry bool) bool {
	if p.watch.windows == nil {
		p.watch.windows = new([flows]window)
	}
	cfg, w := &p.gate.cfg, &p.watch.windows[f]
	moved := p.watch.mover.Moved(f)
	if !w.begun {
		w.begun = true
		w.since, w.at, w.idle, w.seen = now, moved, now, moved
		return false
	}
	if moved != w.seen {
		w.idle, w.seen = now, moved
	}
	if hurry && now.Sub(w.idle) >= cfg.Hurry {
		return true
	}
	d := now.Sub(w.since)
	if d < cfg.Patience {
		return false
	}
	if float64(moved-w.at) < float64(cfg.Rate)*d.Seconds() {
		return true
	}
	w.since, w.at = now, moved
	return false
}
