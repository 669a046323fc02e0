package decode

import (
	"fmt"
	"slices"

	"github.com/stag-rdma/stag/rdmap/ddp"
)

// maxReads bounds the Read Requests remembered per direction; IRD is 14 bits wide (RFC 6581
// Section 9.1).
const maxReads = 1 << 14

// write records the payload of an RDMA Write segment in the memory to which it goes, if a call offered that.
func (s *rpcState) write(ev *Event) {
	s.place(1-ev.Dir, ev.DDP.STag, ev.DDP.TO, ev.DDP.Payload)
}

// place copies octets into the memory of side owner, the side that sends in that direction, and returns the
// region, or nil if nothing offered it.
func (s *rpcState) place(owner Dir, tag ddp.STag, to uint64, b []byte) *region {
	r, off := s.calls[owner].find(tag, to, len(b))
	if r != nil {
		r.place(off, b, s.mem)
	}
	return r
}

// readRequest remembers a Read Request for the Read Responses of the other direction.
func (s *rpcState) readRequest(ev *Event) {
	q := &s.reads[ev.Dir]
	if len(*q) >= maxReads {
		*q = (*q)[1:]
	}
	*q = append(*q, *ev.Message.Read)
}

// readResponse records the payload of a Read Response segment in the memory from which it comes. Responses
// come in the order of the requests (RFC 5040 Section 5.2), so the segment belongs to the oldest.
func (s *rpcState) readResponse(ev *Event) {
	q := &s.reads[1-ev.Dir]
	if s.vague && !s.oldest(q, ev.DDP) {
		return // the request is not in the capture
	}
	if len(*q) == 0 {
		ev.fail(fmt.Errorf("%w: Read Response without a Read Request", ErrOrder))
		return
	}
	req := (*q)[0]
	if ev.DDP.Last {
		*q = (*q)[1:]
	}
	if len(ev.DDP.Payload) == 0 {
		return // its STag and TO mean nothing
	}
	off := ev.DDP.TO - req.SinkTO
	if ev.DDP.STag != req.SinkSTag || ev.DDP.TO < req.SinkTO || off+uint64(len(ev.DDP.Payload)) > uint64(req.Size) {
		ev.fail(fmt.Errorf("%w: Read Response outside the oldest Read Request", ErrOrder))
		return
	}
	r := s.place(ev.Dir, req.SourceSTag, req.SourceTO+off, ev.DDP.Payload)
	if r != nil && r.call.complete() && !r.call.pulled {
		s.pulled(ev, r.call)
	}
}

// oldest drops the requests before the one that a Read Response answers, if some may have been answered
// unseen. It returns false if that one is not there either.
func (s *rpcState) oldest(q *[]ReadRequest, d *DDP) bool {
	i := slices.IndexFunc(*q, func(r ReadRequest) bool {
		return r.SinkSTag == d.STag && d.TO-r.SinkTO+uint64(len(d.Payload)) <= uint64(r.Size)
	})
	if i < 0 {
		return false
	}
	*q = (*q)[i:]
	return true
}

// pulled rebuilds a call whose Read chunks were all seen, and attaches it to the event that brought the last
// octets.
func (s *rpcState) pulled(ev *Event, c *call) {
	c.pulled = true
	r := &RPC{XID: c.xid, Pulled: true, Again: c.known, msgp: c.msgp}
	msg, err := s.rebuild(ev.Dir, c)
	if err != nil {
		r.Err = err
	} else {
		r.Whole = true
		r.parseCall(msg)
		c.know(r)
	}
	s.give(ev, r)
}

// rebuild assembles the unreduced call from its inline octets and its Read chunks (RFC 8166 Section 3.4.5).
func (s *rpcState) rebuild(dir Dir, c *call) ([]byte, error) {
	if c.padded != nil {
		return nil, c.padded // Positions count the stream without pads
	}
	var err error
	if list := c.readList(); c.inline == nil {
		err = s.layout.BuildLong(list, &headerLimits)
	} else {
		err = s.layout.Build(list, len(c.inline), &headerLimits)
	}
	if err != nil {
		return nil, err
	}
	msg := make([]byte, s.layout.Total)
	s.layout.Place(msg, c.inline)
	for _, p := range s.layout.Pulls {
		r, off := s.calls[dir].find(ddp.STag(p.Handle), p.Offset, int(p.Length))
		if r == nil {
			return nil, ErrNotPlaced
		}
		b, ok := r.bytes(off, int(p.Length))
		if !ok {
			return nil, ErrNotPlaced
		}
		copy(msg[p.Dst:], b)
	}
	return msg, nil
}
