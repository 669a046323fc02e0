package commitlog

import (
	"time"

	"github.com/stag-rdma/stag/transport/commitlog/internal/machine"
)

// restraint is what a producer keeps to because the consumer has asked for it.
type restraint struct {
	gap       time.Duration // between two groups
	notBefore time.Time     // of the next one
	armed     bool          // a timer will pump
}

// Restrain makes p use window octets of the ring at most, as long as they hold the records
// that are not released, and leave gap between two groups of appends; 0 for each means no
// restraint. A record that is larger than window goes out alone. It holds until it is called
// again.
func (p *Producer) Restrain(window uint64, gap time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.m.Window = window
	p.restraint.gap, p.restraint.notBefore = gap, time.Time{}
	p.pump()
}

// next returns the group that may be posted now; mu is held.
func (p *Producer) next() *machine.Batch {
	r := &p.restraint
	if r.gap <= 0 {
		return p.m.Next()
	}
	if wait := time.Until(r.notBefore); wait > 0 {
		if !r.armed && p.m.Queued() > 0 {
			r.armed = true
			time.AfterFunc(wait, p.waited)
		}
		return nil
	}
	b := p.m.Next()
	if b != nil {
		r.notBefore = time.Now().Add(r.gap)
	}
	return b
}

// waited is called when the gap is over.
func (p *Producer) waited() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.restraint.armed = false
	p.pump()
}
