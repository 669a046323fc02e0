package requester

import (
	"context"
	"sync"
	"time"
)

// tickEvery is how often calls with Config.CallTimeout are checked. Choice: one slow tick per process
// instead of a timer per call, which costs 13 % of a short call.
const tickEvery = 100 * time.Millisecond

// watch puts p on the list that the tick checks. The caller holds c.mu.
func (c *Requester) watch(p *outstanding, deadline time.Time) {
	p.deadline = deadline
	if c.live == nil {
		c.live = make(map[*outstanding]struct{})
	}
	c.live[p] = struct{}{}
	if !c.ticked { // once, until expire says that none are left: the calls after that cost no lock of the process
		c.ticked = true
		ticks.add(c)
	}
}

// unwatch removes p from that list. The caller holds c.mu.
func (c *Requester) unwatch(p *outstanding) {
	if len(c.live) > 0 {
		delete(c.live, p)
	}
}

// expire completes the calls that are out of time, and reports whether others are left.
func (c *Requester) expire(now time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for p := range c.live {
		if p.w.Done() || now.Before(p.deadline) {
			continue // its caller is about to take it off the list
		}
		delete(c.live, p)
		p.late = true
		p.w.Complete(context.DeadlineExceeded)
	}
	c.ticked = len(c.live) > 0
	return c.ticked
}

// ticks is the tick of the process.
var ticks ticker

// ticker checks clients with timed calls; its goroutine lives as long as there are any.
type ticker struct {
	mu      sync.Mutex
	clients map[*Requester]struct{}
	running bool
}

// add has c checked until its expire returns false.
func (t *ticker) add(c *Requester) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.clients == nil {
		t.clients = make(map[*Requester]struct{})
	}
	t.clients[c] = struct{}{}
	if !t.running {
		t.running = true
		go t.run()
	}
}

func (t *ticker) run() {
	for t.tick() {
		time.Sleep(tickEvery)
	}
}

// tick checks every client once; if it returns false, the goroutine ends.
func (t *ticker) tick() bool {
	now := time.Now()
	t.mu.Lock() // not while expire runs: Requester.mu comes before it
	list := make([]*Requester, 0, len(t.clients))
	for c := range t.clients {
		list = append(list, c)
	}
	t.mu.Unlock()
	for _, c := range list {
		if !c.expire(now) {
			t.drop(c)
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.running = len(t.clients) > 0
	return t.running
}

// drop forgets c unless it has asked again meanwhile. Requester.mu comes before
// ticker.mu, here as in add.
func (t *ticker) drop(c *Requester) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ticked {
		return
	}
	t.mu.Lock()
	delete(t.clients, c)
	t.mu.Unlock()
}
