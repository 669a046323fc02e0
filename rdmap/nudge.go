package rdmap

import "slices"

// nudgeAt are the ticks after the first output at which an initiator that has heard
// nothing nudges the peer: after 200 ms and after a second.
var nudgeAt = []int{5, 25}

// nudge wakes a peer that has missed the first FPDUs. Linux's siw (6.1, siw_accept)
// sends the MPA Reply before it asks TCP to be told of input, so what arrives in
// between lies in its socket until something follows; an initiator that waits for an
// answer then waits for ever. What follows is an RDMA Write of no octets: it has no
// effect, and its STag and TO are not looked at (RFC 5041 Section 7.1).
type nudge struct {
	c     *Conn
	ticks int // the ticker's
}

// nudges reports whether c is one to nudge: another stag does not need it.
func (c *Conn) nudges() bool {
	return c.initiator && !c.state.StagPeer && !c.cfg.NoNudge
}

// ticked implements tickee.
func (n *nudge) ticked() bool {
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
		c.snd.post(&WR{Op: OpWrite})
	}
	c.mu.Unlock()
	c.flushIfReady(flushReader) // the ticker must not wait
	return alive && n.ticks < nudgeAt[len(nudgeAt)-1]
}
