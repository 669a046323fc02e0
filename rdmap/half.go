package rdmap

import "sync/atomic"

// half looks after the staging that holds the begun FPDU of a connection: when
// nothing has come for a tick or two it is exchanged for a smaller one, so that a
// peer that stops inside an FPDU makes us hold little more than it has sent. While
// octets flow nothing is moved, which would be one more copy of them.
type half struct {
	c      *Conn
	on     atomic.Bool  // the ticker knows
	held   atomic.Int64 // octets of staging held
	seen   uint64       // reads as of the last tick; the ticker's
	shrink atomic.Bool  // the holder of the reading role is asked to park
}

// keep is told by the holder of the role what it holds behind a burst.
func (h *half) keep(st *staging) {
	if st == nil {
		if h.held.Load() != 0 {
			h.held.Store(0)
		}
		return
	}
	h.held.Store(int64(len(st.b)))
	if len(st.b) > smallStaging && !h.on.Load() {
		h.on.Store(true)
		h.c.tick.add(h)
	}
}

// park exchanges the staging; the caller holds the role.
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
	if h.held.Load() <= smallStaging {
		return false
	}
	r := &c.role
	r.mu.Lock()
	defer r.mu.Unlock()
	switch r.holder {
	case holderNone:
		h.park() // nobody can take the role meanwhile
	case holderEnd:
	default:
		h.shrink.Store(true)
		r.interrupt()
	}
	return false
}
