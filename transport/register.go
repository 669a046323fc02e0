package transport

import (
	"context"

	"github.com/stag-rdma/stag/chunks"
	"github.com/stag-rdma/stag/rdmap"
	"github.com/stag-rdma/stag/rdmap/region"
	"github.com/stag-rdma/stag/transport/internal/mem"
	"github.com/stag-rdma/stag/transport/rpc"
)

// handleOf and stagOf are the only place where the two names of a steering tag meet: the handle of
// RFC 8166 Section 3.4.3 is the STag of RFC 5041 Section 4.2, unchanged.
func handleOf(s region.STag) chunks.Handle { return chunks.Handle(s) }

func stagOf(h chunks.Handle) region.STag { return region.STag(h) }

// lent is memory that a peer may touch: a separate registration, or a part of a Memory.
type lent struct {
	region.Region
	in *mem.Memory // nil: a separate registration
	n  int         // octets
}

// registered returns what is inside m, which may be nil.
func registered(m *rpc.Memory) *mem.Memory { return (*mem.Memory)(m) }

// lend gives the peer access to p. If in is not nil, p is a part of it.
func lend(c *rdmap.Conn, ctr *counters, p []byte, in *rpc.Memory, access region.Access) (l lent, err error) {
	made := true
	if in == nil {
		l.Region, err = c.Register(p, access)
	} else {
		l.Region, made, err = registered(in).Open(c, p, access)
	}
	if err != nil {
		return lent{}, err
	}
	if made {
		ctr.registered.Add(1)
	} else {
		ctr.reused.Add(1)
	}
	ctr.lentOctets.Add(int64(len(p)))
	l.in, l.n = registered(in), len(p)
	return l, nil
}

// takeBack invalidates the steering tag, and returns when the engine no longer touches the memory,
// which then belongs to its owner again. If ctx ends first, the error is region.ErrPinned.
func (l *lent) takeBack(ctx context.Context, ctr *counters) error {
	if l.n == 0 {
		return nil
	}
	if err := l.Invalidate(ctx); err != nil {
		return err
	}
	if l.in != nil {
		l.in.Give()
	}
	ctr.lentOctets.Add(-int64(l.n))
	*l = lent{}
	return nil
}

// part names the memory that a call can offer.
type part int

const (
	partArg part = iota
	partStream
	partSink
	partReply
	parts
)

// registrations are the regions of one call.
type registrations [parts]lent

// add lends mem and appends the segment that offers it. An empty part needs no
// registration.
func (r *registrations) add(c *Client, p part, seg chunks.WriteChunk, mem []byte, in *rpc.Memory, access region.Access) (chunks.WriteChunk, error) {
	seg = seg[:0]
	if len(mem) == 0 {
		return seg, nil
	}
	l, err := lend(c.conn, c.ctr, mem, in, access)
	if err != nil {
		return seg, err
	}
	r[p] = l
	return append(seg, chunks.Segment{Handle: handleOf(l.STag()), Length: uint32(len(mem))}), nil
}

// invalidate revokes everything; see takeBack.
func (r *registrations) invalidate(ctx context.Context, ctr *counters) error {
	for i := range r {
		if err := r[i].takeBack(ctx, ctr); err != nil {
			return err
		}
	}
	return nil
}
