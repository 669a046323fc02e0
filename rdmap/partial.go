package rdmap

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/stag-rdma/stag/rdmap/internal/buf"
	"github.com/stag-rdma/stag/rdmap/internal/drive"
	"github.com/stag-rdma/stag/rdmap/internal/engine"
	"github.com/stag-rdma/stag/rdmap/verbs"
)

// partial looks after the staging that holds an unfinished FPDU of a connection. When nothing has
// arrived for a tick or two, the staging is exchanged for a smaller one, so that a peer that stops
// inside an FPDU makes us hold little more than it has sent, and not for ever. While octets arrive
// nothing is moved, because that would copy them once more.
type partial struct {
	c      *Conn
	fpdu   engine.PartialFPDU // owned by the ticker
	on     atomic.Bool        // registered with the ticker
	held   atomic.Int64       // octets of staging held while the rest of the FPDU is awaited
	shrink atomic.Bool        // the holder of the reading role is asked to park
	rest   atomic.Pointer[time.Timer]

	told   atomic.Bool // Config.PartialFPDU was called with octets
	tellMu sync.Mutex
	ended  bool // under tellMu
}

// tell calls Config.PartialFPDU if octets are held for an FPDU, or were.
func (p *partial) tell(n int) {
	f := p.c.cfg.PartialFPDU
	if f == nil {
		return
	}
	p.tellMu.Lock()
	defer p.tellMu.Unlock()
	if n > 0 && (p.ended || p.held.Load() == 0) || n == 0 && !p.told.Load() {
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
			p.tell(0)
		}
		return
	}
	p.held.Store(int64(len(st.B)))
	if !p.on.Load() {
		p.on.Store(true)
		p.c.tick.Add(p)
	}
}

// park exchanges the staging for a small one. The caller holds the role.
func (p *partial) park() {
	p.shrink.Store(false)
	c := p.c
	if c.st == nil {
		return
	}
	have := len(c.st.Pending())
	c.st = c.st.Park(c.link.ParkRoom(c.rcv.Deframer.Need(c.st.Pending()), have))
	p.held.Store(int64(len(c.st.B)))
}

// expect gives the peer Timeouts.FPDU to complete the FPDU that it has begun. One that waits for memory of
// ours is given more. That is bounded by Timeouts.Memory, which should be the shorter of the two.
func (p *partial) expect(fpdus, waits uint64) {
	c := p.c
	if c.cfg.Timeouts.FPDU < 0 || c.ended() {
		return
	}
	t := time.AfterFunc(c.cfg.Timeouts.FPDU, func() {
		if p.held.Load() > 0 && c.in.FPDUs.Load() == fpdus && c.rcv.Wait.Turns() == waits {
			c.fail(&verbs.ConnError{Op: "read", Err: verbs.ErrPartialFPDU})
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
	p.tell(0)
	p.tellMu.Lock()
	p.ended = true
	p.tellMu.Unlock()
}

// Tick implements drive.Ticked.
func (p *partial) Tick() bool {
	c := p.c
	reads := c.reads.Load()
	held, fpdus, waits := p.held.Load(), c.in.FPDUs.Load(), c.rcv.Wait.Turns()
	state, another := p.fpdu.Tick(held > 0, reads, fpdus, waits)
	if another {
		p.tell(0) // of the one before
		p.expect(fpdus, waits)
	}
	if state == engine.PartialActive {
		return true
	}
	p.on.Store(false)
	if c.reads.Load() != reads && p.on.CompareAndSwap(false, true) {
		return true // a reader that came before the store has not called Add
	}
	if state == engine.PartialSilent {
		p.tell(int(held))
	}
	if held <= buf.Small {
		return false
	}
	r := &c.reader
	r.mu.Lock()
	defer r.mu.Unlock()
	switch s := r.State(); {
	case s == drive.Free || s == drive.Watched:
		p.park() // nobody can take the role in the meantime
	case s < drive.Drainer:
		p.shrink.Store(true)
		c.interrupt()
	}
	return false
}
