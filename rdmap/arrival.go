package rdmap

import "time"

// arrival is a Send of several segments. The Pool has a list of those that hold memory and are not
// complete.
type arrival struct {
	open    bool // owned by the receiver
	since   time.Time
	overdue func(began time.Time) // called when others need its memory
}

// begin is called when a Send has got memory and is not yet complete.
func (p *Pool) begin(a *arrival) {
	a.open = true
	p.mu.Lock()
	defer p.mu.Unlock()
	a.since = time.Now()
	p.open[a] = struct{}{}
}

// ended is called when the Send is complete, or never will be.
func (p *Pool) ended(a *arrival) {
	if !a.open {
		return
	}
	a.open = false
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.open, a)
}

// holds reports whether the Send that began at the given time is not yet complete.
func (p *Pool) holds(a *arrival, began time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, open := p.open[a]
	return open && a.since.Equal(began)
}

// reclaim ends the connections of all Sends that began at t or earlier and are not complete. Their
// memory comes back when those connections no longer use it.
func (p *Pool) reclaim(t time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for a := range p.open {
		if !a.since.After(t) {
			go a.overdue(a.since)
		}
	}
}

// keep counts n octets that a stalled connection is about to put off. It returns false if all
// connections together would then have put off more than the larger of the pool's limit and what one
// connection may put off; must overrides that.
func (p *Pool) keep(n int, must bool) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !must && p.kept+n > max(p.limit, maxPutOff) {
		return false
	}
	p.kept += n
	return true
}

// forget undoes keep.
func (p *Pool) forget(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.kept -= n
}
