package requester

import (
	"context"

	"github.com/stag-rdma/stag/chunks"
	"github.com/stag-rdma/stag/rdmap"
	"github.com/stag-rdma/stag/rdmap/region"
	"github.com/stag-rdma/stag/transport/internal/memory"
	"github.com/stag-rdma/stag/transport/rpc"
	"github.com/stag-rdma/stag/xdr"
)

// part names the memory that a call can offer.
type part int

const (
	partArg part = iota
	partStream
	partSink
	partReply
	partCount
)

// registrations are the regions of one call.
type registrations [partCount]memory.Registration

// add lends mem and appends the segment that offers it. An empty part needs no
// registration.
func (r *registrations) add(conn *rdmap.Conn, ctr *memory.Counters, p part, seg chunks.WriteChunk, mem []byte, in *rpc.Memory, access region.Access) (chunks.WriteChunk, error) {
	seg = seg[:0]
	if len(mem) == 0 {
		return seg, nil
	}
	l, err := memory.Register(conn, ctr, mem, (*memory.Memory)(in), access)
	if err != nil {
		return seg, err
	}
	r[p] = l
	return append(seg, chunks.Segment{Handle: memory.Handle(l.STag()), Length: uint32(len(mem))}), nil
}

// invalidate revokes everything; see Registration.Revoke.
func (r *registrations) invalidate(ctx context.Context, ctr *memory.Counters) error {
	for i := range r {
		if err := r[i].Revoke(ctx, ctr); err != nil {
			return err
		}
	}
	return nil
}

// setItems describes the reducible arguments by their positions in the unreduced call.
func (p *outstanding) setItems(call *rpc.Call) {
	before := len(p.rpc)
	p.items = append(p.items[:0], chunks.Item{Pos: before + call.ItemPos, Data: call.Item})
	for i := range call.MoreItems {
		last := len(p.items[i].Data)
		before += last + xdr.Pad(last)
		it := &call.MoreItems[i]
		p.items = append(p.items, chunks.Item{Pos: before + it.Pos, Data: it.Data})
	}
	p.rc.Message.Items = p.items
}

// setSinks describes the room for results. With inline none may be placed, and setSinks returns the
// octets that they take in the reply.
func (p *outstanding) setSinks(call *rpc.Call, inline bool) (data int) {
	p.rc.Sink, p.rc.MoreSinks = len(call.Sink), p.rc.MoreSinks[:0]
	data = len(call.Sink) + xdr.Pad(len(call.Sink))
	for i := range call.MoreSinks {
		n := len(call.MoreSinks[i].Data)
		data += n + xdr.Pad(n)
		p.rc.MoreSinks = append(p.rc.MoreSinks, n)
	}
	if !inline {
		return 0
	}
	p.rc.Sink, p.rc.MoreSinks = 0, p.rc.MoreSinks[:0]
	return data
}

// registerMore registers the memory of further items and sinks that the plan needs.
func (p *outstanding) registerMore(c *Requester, call *rpc.Call, read, write region.Access) (err error) {
	rc, m := &p.rc, &p.rc.Memory
	for i := range call.MoreItems {
		var seg *chunks.WriteChunk
		if seg, m.More = oneMore(m.More); rc.Plan.More.Has(i + 1) {
			it := &call.MoreItems[i]
			if *seg, err = p.addMore(c, *seg, it.Data, it.Memory, read); err != nil {
				return err
			}
		}
	}
	if !rc.Plan.Sink {
		return nil
	}
	for i := range call.MoreSinks {
		var seg *chunks.WriteChunk
		seg, m.MoreSinks = oneMore(m.MoreSinks)
		s := &call.MoreSinks[i]
		if *seg, err = p.addMore(c, *seg, s.Data, s.Memory, write); err != nil {
			return err
		}
	}
	return nil
}

// oneMore appends an empty chunk to list, in the memory of an earlier one if there is any.
func oneMore(list []chunks.WriteChunk) (*chunks.WriteChunk, []chunks.WriteChunk) {
	n := len(list)
	if n < cap(list) {
		list = list[:n+1]
		list[n] = list[n][:0]
	} else {
		list = append(list, nil)
	}
	return &list[n], list
}

// addMore is registrations.add for the memory of further items and sinks.
func (p *outstanding) addMore(c *Requester, seg chunks.WriteChunk, mem []byte, in *rpc.Memory, access region.Access) (chunks.WriteChunk, error) {
	if len(mem) == 0 {
		return seg, nil
	}
	l, err := memory.Register(c.conn, c.ctr, mem, (*memory.Memory)(in), access)
	if err != nil {
		return seg, err
	}
	p.more = append(p.more, l)
	return append(seg, chunks.Segment{Handle: memory.Handle(l.STag()), Length: uint32(len(mem))}), nil
}

// takeBack revokes all memory of the call; see Registration.Revoke.
func (p *outstanding) takeBack(ctx context.Context, ctr *memory.Counters) error {
	if !p.lends {
		return nil
	}
	for i := range p.more {
		if err := p.more[i].Revoke(ctx, ctr); err != nil {
			return err
		}
	}
	p.more = p.more[:0]
	err := p.regs.invalidate(ctx, ctr)
	p.lends = err != nil
	return err
}
