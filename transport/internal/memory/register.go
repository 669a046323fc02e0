package memory

import (
	"context"

	"github.com/stag-rdma/stag/chunks"
	"github.com/stag-rdma/stag/rdmap"
	"github.com/stag-rdma/stag/rdmap/region"
)

// Handle returns the name that RFC 8166 Section 3.4.3 has for a steering tag (RFC 5041 Section 4.2). It is the
// same number.
func Handle(s region.STag) chunks.Handle { return chunks.Handle(s) }

// STag is the reverse of Handle.
func STag(h chunks.Handle) region.STag { return region.STag(h) }

// Registration is memory that a peer may touch: a separate registration, or a part of a Memory.
type Registration struct {
	region.Region
	in *Memory // nil: a separate registration
	n  int     // octets
}

// Register gives the peer access to p. If in is not nil, p is a part of it.
func Register(c *rdmap.Conn, ctr *Counters, p []byte, in *Memory, access region.Access) (l Registration, err error) {
	made := true
	if in == nil {
		l.Region, err = c.Register(p, access)
	} else {
		l.Region, made, err = in.Open(c, p, access)
	}
	if err != nil {
		return Registration{}, err
	}
	if made {
		ctr.Registered.Add(1)
	} else {
		ctr.Reused.Add(1)
	}
	ctr.LentOctets.Add(int64(len(p)))
	l.in, l.n = in, len(p)
	return l, nil
}

// Revoke invalidates the steering tag, and returns when the engine no longer touches the memory,
// which then belongs to its owner again. If ctx ends first, the error is region.ErrPinned.
func (l *Registration) Revoke(ctx context.Context, ctr *Counters) error {
	if l.n == 0 {
		return nil
	}
	if err := l.Invalidate(ctx); err != nil {
		return err
	}
	if l.in != nil {
		l.in.Give()
	}
	ctr.LentOctets.Add(-int64(l.n))
	*l = Registration{}
	return nil
}

// NoWait is a context that is over: "try without waiting".
var NoWait = func() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}()
