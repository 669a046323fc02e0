package admit

import (
	"slices"
	"sort"

	"github.com/stag-rdma/stag/internal/shared"
)

// State says what a Ticket waits for.
type State uint8

// States of a Ticket.
const (
	Idle      State = iota // for nothing: it holds what it was granted, or nothing yet
	ForClient              // for its client's share
	ForAll                 // has its client's share, and waits for the rest
)

// Ticket is what one call holds. One goroutine at a time uses it, except that Granted comes from any.
type Ticket struct {
	peer   *Peer
	wake   Waiter
	state  State // changes under Budget.mu, as do all fields below
	want   int   // octets it waits for
	octets int   // it holds
	asks   bool  // wants to pull
	pull   bool  // has a place among its client's pulls
	slot   bool  // has a place among all pulls
	holds  bool  // something
	turn   uint64
	flow   Flow
}

// Waiter is a call that waits.
type Waiter interface {
	// Granted is called once when a ticket has what it asked for, from any goroutine, with no lock held.
	// It must not block.
	Granted()
}

// Ticket returns a ticket that holds nothing.
func (p *Peer) Ticket() Ticket { return Ticket{peer: p} }

// Empty reports whether there is nothing to release.
func (t *Ticket) Empty() bool { return !t.holds && t.flow == Still }

// Try takes n octets, and with pull a place among those that pull, if nobody has to wait for them.
func (t *Ticket) Try(n int, pull bool) bool {
	b := t.peer.budget
	b.mu.Lock()
	defer b.mu.Unlock()
	cl := t.peer.client
	t.want, t.asks = n, pull
	// Not past those of the same client, however little it asks for: they came first.
	if len(cl.queue) > 0 || !cl.has(t) || !t.grant(len(b.queue) == 0) {
		return false
	}
	cl.take(t)
	return true
}

// Acquire is like Try, but if there is too little, the ticket waits: then w.Granted is called when it has
// what it asked for, unless Withdraw or Cancel comes first.
func (t *Ticket) Acquire(n int, pull bool, w Waiter) bool {
	b := t.peer.budget
	var list []*Ticket
	b.mu.Lock()
	defer b.unlock(&list)
	cl := t.peer.client
	t.want, t.asks, t.wake = n, pull, w
	t.enter(ForClient)
	i := len(cl.queue)
	if t.holds { // see holders
		i = holders(cl.queue)
	}
	cl.queue = slices.Insert(cl.queue, i, t)
	b.queued.Add(1)
	list = b.ready(cl) // it may be its turn already, also because nobody else would return anything
	if t.state != Idle {
		b.waited++
		return false
	}
	list = slices.DeleteFunc(list, func(o *Ticket) bool { return o == t }) // it has it without being told
	return true
}

// Add takes n octets that exist already, however many there are; with a negative n it returns octets that
// turned out not to be needed.
func (t *Ticket) Add(n int) {
	b := t.peer.budget
	var list []*Ticket
	b.mu.Lock()
	defer b.unlock(&list)
	n = max(n, -t.octets) // what is returned twice would be given twice
	t.add(n)
	if n < 0 {
		list = b.ready(t.peer.client)
	}
}

func (t *Ticket) add(n int) {
	t.peer.budget.free.Add(-int64(n)) // perhaps below zero: then others wait until that is made up for
	t.peer.client.free.Add(-int64(n))
	t.octets += n
	t.peer.octets += n
	t.hold(true)
}

// Octets returns how many octets the ticket holds. Only its owner may ask.
func (t *Ticket) Octets() int { return t.octets }

// Pulled notes that the chunks have arrived, so that others may pull, and that t waits for nothing. The
// octets stay held.
func (t *Ticket) Pulled() {
	b := t.peer.budget
	var list []*Ticket
	b.mu.Lock()
	defer b.unlock(&list)
	t.setFlow(Still)
	t.endPull()
	list = b.ready(t.peer.client)
}

// Release returns all that the ticket holds. It may be used again.
func (t *Ticket) Release() {
	b := t.peer.budget
	var list []*Ticket
	b.mu.Lock()
	defer b.unlock(&list)
	t.setFlow(Still)
	b.free.Add(int64(t.octets))
	t.peer.client.free.Add(int64(t.octets))
	t.peer.octets -= t.octets
	t.octets = 0
	t.endPull()
	t.hold(false)
	list = b.ready(t.peer.client)
}

// Withdraw ends the wait of a ticket, and returns false if there is none: then Granted was called, or will
// be at once.
func (t *Ticket) Withdraw() bool {
	b := t.peer.budget
	var list []*Ticket
	b.mu.Lock()
	defer b.unlock(&list)
	if t.state == Idle {
		return false
	}
	list = b.drop(t.peer.client, func(o *Ticket) bool { return o == t }, nil)
	return true
}

// Cancel ends the waits of all tickets of a connection, and returns their Waiters.
func (p *Peer) Cancel() (waiters []Waiter) {
	b := p.budget
	if b.queued.Load() == 0 { // as when most connections end
		return nil
	}
	var list []*Ticket
	b.mu.Lock()
	defer b.unlock(&list)
	list = b.drop(p.client, func(o *Ticket) bool { return o.peer == p }, &waiters)
	return waiters
}

// unlock is deferred, and tells those on the list then, without the lock.
func (b *Budget) unlock(list *[]*Ticket) {
	shared.Check(recover()) // a panic under the lock would leave the accounts half changed for all clients
	b.mu.Unlock()
	for _, t := range *list { // not under the lock: whoever is told may ask for more at once
		t.wake.Granted()
	}
}

// has reports whether the client's share suffices. If all that the client holds is held by tickets that
// wait, it does: nobody would return anything.
func (c *client) has(t *Ticket) bool {
	return c.free.Load() >= int64(t.want) && (!t.asks || c.pulls > 0) || c.active == 0 && c.passed == 0
}

// take takes what t asks for from the client's share.
func (c *client) take(t *Ticket) {
	c.free.Add(-int64(t.want))
	if t.asks {
		c.pulls--
		t.pull = true
	}
}

// has reports whether there is enough, apart from the client's share, without what is spared.
func (b *Budget) has(t *Ticket) bool {
	free := b.free.Load()
	if t.want > 0 { // one that asks for a pull alone takes nothing of what is spared
		free -= b.cfg.Spare + b.cfg.Reserve
	}
	return free >= int64(t.want) && (!t.asks || b.pulls > 0)
}

// grant gives t the rest of what it asks for, or returns false. No ticket overtakes the queue, except that
// of a connection that holds nothing, which may use what is spared and needs no place among the pulls, and
// one that asks for little. The first is never kept waiting by tickets that all wait.
func (t *Ticket) grant(first bool) bool {
	b := t.peer.budget
	switch {
	case first && (b.has(t) || b.active == 0):
		if t.asks && b.pulls > 0 {
			b.pulls--
			t.slot = true
		}
	case t.peer.holding == 0 && b.free.Load()-b.cfg.Reserve >= int64(t.want):
	case t.small() && b.free.Load() >= int64(t.want):
	default:
		return false
	}
	// Its client's share was taken before, by take: a ticket waits for the two one after the other.
	b.free.Add(-int64(t.want))
	t.octets += t.want
	t.peer.octets += t.want
	if t.asks {
		b.pulling++
	}
	t.enter(Idle)
	if t.want > 0 || t.asks {
		t.hold(true)
	}
	return true
}

// hold notes whether t holds something.
func (t *Ticket) hold(some bool) {
	if t.holds != some {
		t.tally(-1) // out of the sums as it was, and in again as it is
		t.holds = some
		t.tally(1)
	}
}

// enter changes the state.
func (t *Ticket) enter(s State) {
	if t.state != s {
		t.tally(-1)
		t.state = s
		t.tally(1)
	}
}

// tally counts t, as it is now, n times.
func (t *Ticket) tally(n int) {
	p := t.peer
	b, cl := p.budget, p.client
	b.lone -= p.lone() // what is counted below changes it
	if t.holds {
		p.holding += n
		if t.state == Idle {
			b.active += n
			cl.active += n
		}
	}
	// One that asks for a pull alone is wanted as well.
	switch octets := int64(n * max(t.want, 1)); t.state {
	case Idle:
	case ForClient:
		cl.wanted += octets
	case ForAll:
		b.wanted += octets
		if t.small() {
			b.small += n
		}
		p.waiting += n
		cl.passed += n
	}
	b.lone += p.lone()
}

// small reports whether t asks for little.
func (t *Ticket) small() bool { return !t.asks && int64(t.want) <= t.peer.budget.cfg.Small }

// lone returns 1 if p has tickets that may use what is spared.
func (p *Peer) lone() int {
	if p.holding == 0 && p.waiting > 0 {
		return 1
	}
	return 0
}

// endPull releases the places of a pull, if t has them.
func (t *Ticket) endPull() {
	if !t.pull {
		return
	}
	b := t.peer.budget
	b.pulling--
	t.peer.client.pulls++
	if t.slot { // one that was alone on its connection had none
		b.pulls++
	}
	t.pull, t.slot, t.asks = false, false, false
}

// ready takes out of the queues the tickets that can have what they wait for, after something was returned
// to cl or to the Budget.
func (b *Budget) ready(cl *client) (list []*Ticket) {
	n := 0
	for ; n < len(cl.queue) && cl.has(cl.queue[n]); n++ {
		t := cl.queue[n]
		cl.take(t)
		if t.grant(len(b.queue) == 0) {
			list = append(list, t)
		} else {
			b.enqueue(t)
		}
	}
	cl.queue = dropFirst(cl.queue, n)
	// Whoever cannot be satisfied holds up those behind it, so that large ones are not passed for ever,
	for n = 0; n < len(b.queue) && b.queue[n].grant(true); n++ {
		b.turn = max(b.turn, b.queue[n].turn)
		list = append(list, b.queue[n])
	}
	b.queue = dropFirst(b.queue, n)
	// but for those that may use what is spared or reserved, wherever they stand.
	if b.lone+b.small > 0 && len(b.queue) > 0 {
		kept := b.queue[:0]
		for _, t := range b.queue {
			if t.grant(false) {
				list = append(list, t)
			} else {
				kept = append(kept, t)
			}
		}
		clear(b.queue[len(kept):]) // the calls are reused: nobody may be found here
		b.queue = kept
	}
	b.queued.Add(-int32(len(list)))
	return list
}

// enqueue makes t wait for the rest. Clients take turns, so that a client with one call does not wait for all of
// another's: 1500 connections of one address kept it waiting for half a minute.
func (b *Budget) enqueue(t *Ticket) {
	cl := t.peer.client
	if cl.passed == 0 { // it has no turn saved from the time in which it asked for nothing
		cl.turn = b.turn
	} else {
		cl.turn++
	}
	t.turn = cl.turn
	t.enter(ForAll)
	i := holders(b.queue)
	if !t.holds {
		i += sort.Search(len(b.queue)-i, func(k int) bool { return b.queue[i+k].turn > t.turn })
	}
	b.queue = slices.Insert(b.queue, i, t)
}

// holders returns how many tickets of a queue hold something. They are its first: else those that hold nothing yet would
// pass, because all others wait, one after the other, and wait for more then: 64 calls held three times the limit.
func holders(q []*Ticket) int {
	return sort.Search(len(q), func(i int) bool { return !q[i].holds })
}

// drop removes the tickets that out names from the queues, and returns those that can go on now.
func (b *Budget) drop(cl *client, out func(*Ticket) bool, waiters *[]Waiter) []*Ticket {
	remove := func(q []*Ticket) []*Ticket {
		kept := q[:0]
		for _, t := range q {
			if !out(t) {
				kept = append(kept, t)
				continue
			}
			if t.state == ForAll { // it has its client's share
				cl.free.Add(int64(t.want))
				if t.pull {
					cl.pulls++
					t.pull = false
				}
			}
			t.enter(Idle)
			b.queued.Add(-1)
			if waiters != nil {
				*waiters = append(*waiters, t.wake)
			}
		}
		clear(q[len(kept):])
		return kept
	}
	cl.queue = remove(cl.queue)
	b.queue = remove(b.queue)
	return b.ready(cl)
}

// dropFirst removes the first n tickets of a queue.
func dropFirst(q []*Ticket, n int) []*Ticket {
	if n == 0 {
		return q
	}
	k := copy(q, q[n:])
	clear(q[k:])
	return q[:k]
}
