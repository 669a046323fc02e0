package engine

import "slices"

// Keepalive wakes a peer that has missed the first FPDUs. Linux's siw (6.1, siw_accept) sends the MPA Reply before it
// asks TCP for notice of input. So what arrives in between stays in its socket until something follows, and an initiator
// that waits for an answer would wait for ever. What follows is an RDMA Write of no octets: it has no effect, and its STag
// and TO are not checked (RFC 5041 Section 7.1).
type Keepalive struct{ ticks int }

// keepaliveAt are the ticks, of 40 ms, after the first output: after 200 ms and after a second.
var keepaliveAt = []int{5, 25}

// Tick takes one tick, and whether the peer has sent anything. It reports whether a keepalive is due, and whether there
// are more ticks to be taken.
func (k *Keepalive) Tick(heard bool) (due, more bool) {
	if heard {
		return false, false
	}
	k.ticks++
	return slices.Contains(keepaliveAt, k.ticks), k.ticks < keepaliveAt[len(keepaliveAt)-1]
}
