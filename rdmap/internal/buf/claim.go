package buf

import "slices"

// Claim is how a connection asks a pool for memory. If it is refused it joins a queue, and memory
// that comes back is granted to the first in the queue. One that was only told to try again would
// lose to a busy neighbour, which takes back what it has just returned. The lock of the pool
// guards every field but wake.
type Claim struct {
	want    int    // octets
	queued  bool   // in pool.queue
	granted Mem    // memory granted after a wait
	Wake    func() // called when memory was granted
}

// Take returns what cl was granted, or else n octets that nobody else waits for.
func (p *Pool) Take(cl *Claim, n int) (Mem, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if b := cl.granted; b != nil {
		cl.granted = nil
		return b, true
	}
	cl.want = n
	if len(p.queue) > 0 {
		return nil, false
	}
	return p.getLocked(n)
}

// Wait queues cl, whose take has failed.
func (p *Pool) Wait(cl *Claim) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !cl.queued && cl.granted == nil {
		cl.queued = true
		p.queue = append(p.queue, cl)
	}
	p.serve()
}

// serve grants free memory to those in the queue, with mu held.
func (p *Pool) serve() {
	for len(p.queue) > 0 {
		cl := p.queue[0]
		b, ok := p.getLocked(cl.want)
		if !ok {
			return
		}
		p.queue[0] = nil
		p.queue = p.queue[1:]
		cl.queued, cl.granted = false, b
		go cl.Wake()
	}
	p.queue = nil
}

// Leave withdraws cl.
func (p *Pool) Leave(cl *Claim) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if i := slices.Index(p.queue, cl); i >= 0 {
		p.queue = slices.Delete(p.queue, i, i+1)
	}
	if cl.granted != nil {
		p.putLocked(cl.granted)
		cl.granted = nil
	}
	p.serve()
}
