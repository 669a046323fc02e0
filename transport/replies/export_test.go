package replies

import "time"

// What tests from outside need of the inside: times that they would have to wait for, and what is left
// of clients, which nothing else tells.

type (
	Key       = key
	OfferArgs = offerArgs
	OfferRes  = offerRes
)

func (p *Pusher) SetTimes(grace, silence time.Duration) { p.grace, p.silence = grace, silence }

func (p *Pusher) Left() (clients, hosts, conns int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.clients), len(p.bound), p.side.Conns()
}
