package buf

// Arrival is a Send of several segments. The pool has a list of those that hold memory and are not
// complete.
type Arrival struct {
	open    bool               // owned by the receiver
	since   uint64             // number in the order of their beginnings
	Overdue func(began uint64) // called when others need its memory
}

// Begin is called when a Send has got memory and is not yet complete.
func (p *Pool) Begin(a *Arrival) {
	a.open = true
	p.mu.Lock()
	defer p.mu.Unlock()
	p.begun++
	a.since = p.begun
	p.open[a] = struct{}{}
}

// IsOpen reports whether begin was called and ended was not.
func (a *Arrival) IsOpen() bool { return a.open }

// Last returns the number of the Send that began last.
func (p *Pool) Last() uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.begun
}

// Ended is called when the Send is complete, or never will be.
func (p *Pool) Ended(a *Arrival) {
	if !a.open {
		return
	}
	a.open = false
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.open, a)
}

// Holds reports whether the Send with that number is not yet complete.
func (p *Pool) Holds(a *Arrival, began uint64) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, open := p.open[a]
	return open && a.since == began
}

// Reclaim ends the connections of all Sends up to that number that are not complete. Their
// memory comes back when those connections no longer use it.
func (p *Pool) Reclaim(last uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for a := range p.open {
		if a.since <= last {
			go a.Overdue(a.since)
		}
	}
}

// Keep counts n octets that a stalled connection is about to put off. It returns false if all
// connections together would then have put off more than the larger of the pool's limit and one, what one
// connection may put off; must overrides that.
func (p *Pool) Keep(n, one int, must bool) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !must && p.kept+n > max(p.limit, one) {
		return false
	}
	p.kept += n
	return true
}

// Forget undoes keep.
func (p *Pool) Forget(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.kept -= n
}
