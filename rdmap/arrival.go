package rdmap

import "time"

// arrival is a Send of several segments: while it has memory of a Pool and is not
// whole, the Pool knows it.
type arrival struct {
	open    bool // the receiver's
	since   time.Time
	overdue func(began time.Time) // it is in the way of others
}

// begin says that a Send has memory and is not whole yet.
func (p *Pool) begin(a *arrival) {
	a.open = true
	p.mu.Lock()
	defer p.mu.Unlock()
	a.since = time.Now()
	p.open[a] = struct{}{}
}

// ended says that it is whole, or never will be.
func (p *Pool) ended(a *arrival) {
	if !a.open {
		return
	}
	a.open = false
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.open, a)
}

// holds reports whether a Send that began at the given time is not whole yet.
func (p *Pool) holds(a *arrival, began time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, open := p.open[a]
	return open && a.since.Equal(began)
}

// reclaim has every Send ended that began no later than t and is not whole yet. The
// memory comes back as soon as their connections are through with it.
func (p *Pool) reclaim(t time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for a := range p.open {
		if !a.since.After(t) {
			go a.overdue(a.since)
		}
	}
}

// keep counts n octets that a stalled connection is to put off. It reports false when
// all connections together have put off as much as the pool holds, or as one may; must
// overrides that.
func (p *Pool) keep(n int, must bool) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !must && p.kept+n > max(p.limit, maxPutOff) {
		return false
	}
	p.kept += n
	return true
}

// forget ends what keep began.
func (p *Pool) forget(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.kept -= n
}
