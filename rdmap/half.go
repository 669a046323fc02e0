package rdmap

import (
	"fmt"
	"os"
	"sync/atomic"
	"time"
)

// half looks after the staging that holds an unfinished FPDU of a connection. When nothing has
// arrived for a tick or two, the staging is exchanged for a smaller one, so that a peer that stops
// inside an FPDU makes us hold little more than it has sent, and not for ever. While octets arrive
// nothing is moved, because that would copy them once more.
type half struct {
	c      *Conn
	on     atomic.Bool  // registered with the ticker
	held   atomic.Int64 // octets of staging held while the rest of the FPDU is awaited
	seen   uint64       // reads at the last tick; owned by the ticker
	shrink atomic.Bool  // the holder of the reading role is asked to park
	rest   atomic.Pointer[time.Timer]
}

// ErrHalfFPDU: the peer began an FPDU and then sent nothing for Config.FPDUTimeout. It wraps
// os.ErrDeadlineExceeded; a ConnError wraps it.
var ErrHalfFPDU = fmt.Errorf("rdmap: peer began an FPDU and did not finish it: %w", os.ErrDeadlineExceeded)

// keep is called by the holder of the role with the staging that it still holds after a burst.
func (h *half) keep(st *staging) {
	if st == nil {
		if h.held.Load() != 0 {
			h.held.Store(0)
		}
		return
	}
	h.held.Store(int64(len(st.b)))
	if !h.on.Load() {
		h.on.Store(true)
		h.c.tick.add(h)
	}
}

// park exchanges the staging for a small one. The caller holds the role.
func (h *half) park() {
	h.shrink.Store(false)
	c := h.c
	if c.st == nil {
		return
	}
	have := len(c.st.pending())
	c.st = c.st.park(c.link.parkRoom(c.df.Need(c.st.pending()), have))
	h.held.Store(int64(len(c.st.b)))
}

// goesOn is called by the holder of the role when octets have arrived.
func (h *half) goesOn() {
	if h.held.Load() != 0 {
		h.held.Store(0)
	}
}

// expect gives the peer Config.FPDUTimeout to go on with the FPDU that it has begun. An FPDU that
// waits for memory of ours is given more: that such a wait begins or ends is progress too. It is
// bounded by Config.StallTimeout, which should be the shorter of the two.
func (h *half) expect() {
	c := h.c
	if c.cfg.FPDUTimeout < 0 || c.failed.Load() {
		return
	}
	reads, turn := c.reads.Load(), c.stall.turn.Load()
	t := time.AfterFunc(c.cfg.FPDUTimeout, func() {
		if h.held.Load() > 0 && c.reads.Load() == reads && c.stall.turn.Load() == turn {
			c.fail(&ConnError{Op: "read", Err: ErrHalfFPDU})
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
}

// ticked implements tickee.
func (h *half) ticked() bool {
	c := h.c
	reads := c.reads.Load()
	busy := reads != h.seen
	h.seen = reads
	if busy {
		return true
	}
	h.on.Store(false)
	held := h.held.Load()
	if held > 0 {
		h.expect()
	}
	if held <= smallStaging {
		return false
	}
	r := &c.role
	r.mu.Lock()
	defer r.mu.Unlock()
	switch r.holder {
	case holderNone:
		h.park() // nobody can take the role in the meantime
	case holderEnd:
	default:
		h.shrink.Store(true)
		r.interrupt()
	}
	return false
}
