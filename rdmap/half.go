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

// half looks after the staging that holds an unfinished FPDU of a connection. When nothing has
// arrived for a tick or two, the staging is exchanged for a smaller one, so that a peer that stops
// inside an FPDU makes us hold little more than it has sent, and not for ever. While octets arrive
// nothing is moved, because that would copy them once more.
type half struct {
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
func (h *half) tell(n int) {
	f := h.c.cfg.PartialFPDU
	if f == nil {
		return
	}
	h.tellMu.Lock()
	defer h.tellMu.Unlock()
	if n > 0 && (h.ended || h.held.Load() == 0) || n == 0 && !h.told.Load() {
		return // it is complete meanwhile
	}
	h.told.Store(n > 0)
	f(n)
}

// keep is called by the holder of the role with the staging that it still holds after a burst.
func (h *half) keep(st *buf.Staging) {
	if st == nil {
		if h.held.Load() != 0 {
			h.held.Store(0)
		}
		if h.told.Load() {
			h.tell(0)
		}
		return
	}
	h.held.Store(int64(len(st.B)))
	if !h.on.Load() {
		h.on.Store(true)
		h.c.tick.Add(h)
	}
}

// park exchanges the staging for a small one. The caller holds the role.
func (h *half) park() {
	h.shrink.Store(false)
	c := h.c
	if c.st == nil {
		return
	}
	have := len(c.st.Pending())
	c.st = c.st.Park(c.link.ParkRoom(c.rcv.Deframer.Need(c.st.Pending()), have))
	h.held.Store(int64(len(c.st.B)))
}

// expect gives the peer Config.FPDUTimeout to complete the FPDU that it has begun. One that waits for memory of
// ours is given more. That is bounded by Config.StallTimeout, which should be the shorter of the two.
func (h *half) expect(fpdus, waits uint64) {
	c := h.c
	if c.cfg.FPDUTimeout < 0 || c.ended() {
		return
	}
	t := time.AfterFunc(c.cfg.FPDUTimeout, func() {
		if h.held.Load() > 0 && c.in.FPDUs.Load() == fpdus && c.rcv.Wait.Turns() == waits {
			c.fail(&verbs.ConnError{Op: "read", Err: verbs.ErrPartialFPDU})
		}
	})
	if old := h.rest.Swap(t); old != nil {
		old.Stop()
	}
}

// stop ends the wait at the end of the connection.
func (h *half) stop() {
	if t := h.rest.Swap(nil); t != nil {
		t.Stop()
	}
	h.tell(0)
	h.tellMu.Lock()
	h.ended = true
	h.tellMu.Unlock()
}

// Tick implements drive.Ticked.
func (h *half) Tick() bool {
	c := h.c
	reads := c.reads.Load()
	held, fpdus, waits := h.held.Load(), c.in.FPDUs.Load(), c.rcv.Wait.Turns()
	state, another := h.fpdu.Tick(held > 0, reads, fpdus, waits)
	if another {
		h.tell(0) // of the one before
		h.expect(fpdus, waits)
	}
	if state == engine.PartialActive {
		return true
	}
	h.on.Store(false)
	if c.reads.Load() != reads && h.on.CompareAndSwap(false, true) {
		return true // a reader that came before the store has not called Add
	}
	if state == engine.PartialSilent {
		h.tell(int(held))
	}
	if held <= buf.Small {
		return false
	}
	r := &c.reader
	r.mu.Lock()
	defer r.mu.Unlock()
	switch s := r.State(); {
	case s == drive.Free || s == drive.Watched:
		h.park() // nobody can take the role in the meantime
	case s < drive.Drainer:
		h.shrink.Store(true)
		c.interrupt()
	}
	return false
}
