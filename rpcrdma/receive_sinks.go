package rpcrdma

import (
	"slices"

	"github.com/stag-rdma/stag/chunks"
	"github.com/stag-rdma/stag/xdr"
)

// anyPlaced reports whether any result is in its sink.
func (c *Call) anyPlaced() bool {
	return slices.ContainsFunc(c.Lens, func(n int) bool { return n > 0 })
}

// judgeSinks compares all eligible results with the octets that were placed in the sinks:
// result k has sink k (RFC 8166 Section 4.3.2.1). l is nil if the program can have one
// eligible result only and the call offers memory for more, which must then stay unused.
// success says that there are results at all.
func (c *Call) judgeSinks(l chunks.Lister, res *Result, success bool) error {
	if !success || l == nil {
		if c.anyPlaced() {
			return ErrNotEligible
		}
		return nil
	}
	k, bad := 0, error(nil)
	l.ListResults(c.Prog, c.Vers, c.Proc, res.Results, func(pos, n int) int {
		here, err := c.judgeSink(res, k, pos, n)
		if k++; err != nil {
			bad = err
			return -1
		}
		return here
	})
	switch {
	case bad != nil:
		return bad
	case k < len(c.Lens) && slices.ContainsFunc(c.Lens[k:], func(n int) bool { return n > 0 }):
		// Choice: also when the binding could not step over what comes before it.
		return ErrNotEligible
	}
	return nil
}

// judgeSink judges eligible result k, whose n octets are due at offset pos of the results. It
// returns how many octets of it, pad included, are inline there.
func (c *Call) judgeSink(res *Result, k, pos, n int) (here int, err error) {
	if k == 0 {
		res.ItemPos, res.ItemLen = pos, n
	}
	inline := n + xdr.Pad(n)
	switch {
	case k >= len(c.Lens), c.room(k) == 0, res.Read && c.Lens[k] == 0:
		return inline, nil
	case n > 0 && c.Lens[k] == 0:
		return 0, ErrNotReduced
	case !(chunks.Placed{Len: c.Lens[k]}).Holds(n):
		return 0, ErrItemLength
	}
	res.Placed = true
	c.Lens[k] = n
	return 0, nil
}

// room returns the octets of sink k.
func (c *Call) room(k int) int {
	if k == 0 {
		return c.Sink
	}
	return c.MoreSinks[k-1]
}
