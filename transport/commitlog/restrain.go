package commitlog

import (
	"time"

	"github.com/stag-rdma/stag/transport/commitlog/internal/machine"
)

// restraint limits a producer because the consumer has asked for it.
type restraint struct {
	gap       time.Duration // between two groups
	notBefore time.Time     // of the next one
	armed     bool          // a timer will pump
}

// Restrain makes p keep at most window octets of the ring in use for records that were not
// released, and wait gap between two groups of appends. 0 means no restraint. A record larger
// than window is sent alone. The restraint holds until the next call.
func (p *Producer) Restrain(window uint64, gap time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.m.Window = window
	p.restraint.gap, p.restraint.notBefore = gap, time.Time{}
	p.pump()
}

// next returns the group that may be posted now. The caller holds p.mu.
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
