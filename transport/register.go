package transport

import (
	"context"

	"github.com/stag-rdma/stag/chunks"
	"github.com/stag-rdma/stag/rdmap"
	"github.com/stag-rdma/stag/rdmap/region"
)

// handleOf and stagOf are the one place where the two names of a steering tag meet:
// the handle of RFC 8166 Section 3.4.3 is the STag of RFC 5041 Section 4.2 as it
// stands.
func handleOf(s region.STag) chunks.Handle { return chunks.Handle(s) }

func stagOf(h chunks.Handle) region.STag { return region.STag(h) }

// part names the memory a call can offer.
type part int

const (
	partArg part = iota
	partStream
	partSink
	partReply
	parts
)

// registrations are the regions of one call.
type registrations [parts]region.Region

// add registers mem and appends the segment that offers it. An empty part needs no
// registration.
func (r *registrations) add(c *rdmap.Conn, p part, seg chunks.WriteChunk, mem []byte, access region.Access) (chunks.WriteChunk, error) {
	seg = seg[:0]
	if len(mem) == 0 {
		return seg, nil
	}
	reg, err := c.Register(mem, access)
	if err != nil {
		return seg, err
	}
	r[p] = reg
	return append(seg, chunks.Segment{Handle: handleOf(reg.STag()), Length: uint32(len(mem))}), nil
}

// invalidate makes all steering tags invalid and returns when the engine no longer
// touches the memory, or with region.ErrPinned when ctx ends first.
func (r *registrations) invalidate(ctx context.Context) error {
	for i := range r {
		if err := r[i].Invalidate(ctx); err != nil {
			return err
		}
	}
	*r = registrations{}
	return nil
}
