package card

import (
	"context"

	"github.com/stag-rdma/stag/rdmap/region"
)

// named is memory that the peer may reach: a registration for one use, because to end it is to take the name back. Memory
// windows of type 2 would do the same by a work request, and let the peer take the name back too (RFC 8797, R), but no
// card was here to try them with, and rxe is no place for them.
type named struct {
	c *Conn
	r *registration
}

// Name implements region.Namer.
func (c *Conn) Name(mem []byte, access region.Access) (region.Named, error) {
	rights := 0
	if access&region.RemoteRead != 0 {
		rights |= remoteRead
	}
	if access&region.RemoteWrite != 0 {
		rights |= remoteWrite
	}
	if access&^(region.RemoteRead|region.RemoteWrite|region.RemoteInvalidate|region.ReadSink|region.Scratch) != 0 {
		return nil, region.ErrRights // the card would act alone
	}
	r, err := c.dev.pin(mem, rights, nil)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.state != stateUp {
		r.end()
		return nil, region.ErrClosed
	}
	n := &named{c, r}
	c.names[n] = struct{}{}
	return n, nil
}

// STag implements region.Named.
func (n *named) STag() region.STag { return region.STag(n.r.rkey) }

// Base implements region.Named.
func (n *named) Base() uint64 { return n.r.base }

// Drop implements region.Named. The card no longer touches the memory when ibv_dereg_mr returns.
func (n *named) Drop(context.Context) error {
	n.r.end()
	n.c.mu.Lock()
	delete(n.c.names, n)
	n.c.mu.Unlock()
	return nil
}
