package rdmap

import (
	"slices"

	"github.com/stag-rdma/stag/rdmap/internal/drive"
	"github.com/stag-rdma/stag/rdmap/verbs"
)

// nudgeAt are the ticks after the first output at which an initiator that has received nothing nudges
// the peer: after 200 ms and after a second.
var nudgeAt = []int{5, 25}

// nudge wakes a peer that has missed the first FPDUs. Linux's siw (6.1, siw_accept) sends the MPA
// Reply before it asks TCP for notice of input. So what arrives in between stays in its socket until
// something follows, and an initiator that waits for an answer would wait for ever. What follows is an
// RDMA Write of no octets: it has no effect, and its STag and TO are not checked (RFC 5041 Section
// 7.1).
type nudge struct {
	c     *Conn
	ticks int // owned by the ticker
}

// nudges reports whether c nudges its peer: another stag does not need that.
func (c *Conn) nudges() bool {
	return c.initiator && !c.state.StagPeer && !c.cfg.NoNudge
}

// Tick implements drive.Ticked.
func (n *nudge) Tick() bool {
	c := n.c
	if c.reads.Load() > 0 {
		return false
	}
	n.ticks++
	if !slices.Contains(nudgeAt, n.ticks) {
		return true
	}
	c.mu.Lock()
	alive := c.err == nil && !c.closing
	if alive {
		c.snd.Post(&verbs.WR{Op: verbs.OpWrite})
	}
	c.mu.Unlock()
	c.flushIfReady(drive.Never) // the ticker must not wait
	return alive && n.ticks < nudgeAt[len(nudgeAt)-1]
}
