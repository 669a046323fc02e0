package rdmap

import "slices"

// claim is how a connection asks a Pool for memory. Who is refused queues, and memory
// that comes back is handed to the first in the queue, whether it looks or not: one that
// only looked again would lose to a busy neighbour, which takes back what it has just
// given. All of it but wake is under the lock of the Pool.
type claim struct {
	want    int     // octets
	queued  bool    // in Pool.queue
	granted poolBuf // memory that was waited for
	wake    func()  // there is some
}

// take is get for cl: what was granted, or memory that nobody waits for.
func (p *Pool) take(cl *claim, n int) (poolBuf, bool) {
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

// wait queues cl, whose take has failed.
func (p *Pool) wait(cl *claim) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !cl.queued && cl.granted == nil {
		cl.queued = true
		p.queue = append(p.queue, cl)
	}
	p.serve()
}

// serve hands out what there is, with mu held.
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
		go cl.wake()
	}
	p.queue = nil
}

// leave ends what cl asked for.
func (p *Pool) leave(cl *claim) {
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
