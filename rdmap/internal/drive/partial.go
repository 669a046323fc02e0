package drive

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/stag-rdma/stag/rdmap/internal/buf"
	"github.com/stag-rdma/stag/rdmap/internal/engine"
	"github.com/stag-rdma/stag/rdmap/verbs"
)

// partial looks after the staging that holds an unfinished FPDU of a connection. When hardly
// anything has arrived for a tick or two, the staging is exchanged for a smaller one, so that a peer that stops
// inside an FPDU makes us hold little more than it has sent, and not for ever. While octets arrive
// nothing is moved, because that would copy them once more.
type partial struct {
	d      *Driver
	fpdu   engine.PartialFPDU // owned by the ticker
	on     atomic.Bool        // registered with the ticker
	held   atomic.Int64       // octets of staging held while the rest of the FPDU is awaited
	shrink atomic.Bool        // the holder of the reading role is asked to park
	rest   atomic.Pointer[time.Timer]

	told   atomic.Bool // Config.PartialFPDU was called with octets
	tellMu sync.Mutex
	ended  bool // under tellMu
}

// tell calls Config.PartialFPDU with what is held for an FPDU that is silent, or, if something was told before, with 0.
func (p *partial) tell(silent bool) {
	f := p.d.cfg.PartialFPDU
	if f == nil {
		return
	}
	p.tellMu.Lock()
	defer p.tellMu.Unlock()
	n := 0
	if silent {
		n = int(p.held.Load())
	}
	if silent && (p.ended || n == 0) || !silent && !p.told.Load() {
		return // it is complete meanwhile
	}
	p.told.Store(n > 0)
	f(n)
}

// keep is called by the holder of the role with the staging that it still holds after input.
func (p *partial) keep(st *buf.Staging) {
	if st == nil {
		if p.held.Load() != 0 {
			p.held.Store(0)
		}
		if p.told.Load() {
			p.tell(false)
		}
		return
	}
	p.held.Store(int64(len(st.B)))
	if !p.on.Load() {
		p.on.Store(true)
		p.d.tick.Add(p)
	}
}

// park exchanges the staging for a small one. The caller holds the role.
func (p *partial) park() {
	p.shrink.Store(false)
	d := p.d
	if d.st == nil {
		return
	}
	have := len(d.st.Pending())
	d.st = d.st.Park(d.link.ParkRoom(d.rcv.Deframer.Need(d.st.Pending()), have))
	p.held.Store(int64(len(d.st.B)))
}

// parked is park for the reader, which was asked to.
func (p *partial) parked() {
	p.park()
	if p.told.Load() {
		p.tell(true)
	}
}

// expect gives the peer Timeouts.FPDU to complete the FPDU that it has begun. One that waits for memory of
// ours is given more. That is bounded by Timeouts.Memory, which should be the shorter of the two.
func (p *partial) expect(fpdus, waits uint64) {
	d := p.d
	if d.cfg.FPDU < 0 || d.ended() {
		return
	}
	t := time.AfterFunc(d.cfg.FPDU, func() {
		if p.held.Load() > 0 && d.in.FPDUs.Load() == fpdus && d.rcv.Wait.Turns() == waits {
			d.fail(&verbs.ConnError{Op: "read", Err: verbs.ErrPartialFPDU})
		}
	})
	if old := p.rest.Swap(t); old != nil {
		old.Stop()
	}
}

// stop ends the wait at the end of the connection.
func (p *partial) stop() {
	if t := p.rest.Swap(nil); t != nil {
		t.Stop()
	}
	p.tell(false)
	p.tellMu.Lock()
	p.ended = true
	p.tellMu.Unlock()
}

// Tick implements Ticked.
func (p *partial) Tick() bool {
	d := p.d
	reads := d.reads.Load()
	held, fpdus, waits := p.held.Load(), d.in.FPDUs.Load(), d.rcv.Wait.Turns()
	state, another := p.fpdu.Tick(held > 0, d.in.Octets.Load(), fpdus, waits)
	if another {
		p.tell(false) // of the one before
		p.expect(fpdus, waits)
	}
	if state == engine.PartialActive {
		return true
	}
	p.on.Store(false)
	if d.reads.Load() != reads && p.on.CompareAndSwap(false, true) {
		return true // a reader that came before the store has not called Add
	}
	if held > buf.Small {
		r := &d.role
		r.mu.Lock()
		switch s := r.State(); {
		case s == Free || s == Watched:
			p.park() // nobody can take the role in the meantime
		case s < Drainer:
			p.shrink.Store(true)
			d.interrupt()
		}
		r.mu.Unlock()
	}
	if state == engine.PartialSilent {
		p.tell(true)
	}
	return false
}
