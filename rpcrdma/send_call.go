package rpcrdma

import (
	"math"

	"github.com/stag-rdma/stag/chunks"
)

// AppendCall appends the Send of a call that was planned: the header and, unless
// the call is long, the inline octets. If these end with at least GatherMin octets of
// an item, those are not copied: body is the item, and the end of the Send. Else
// body is nil. head and body together never exceed SendSize.
//
// It borrows c.Memory. Errors, after which b is unchanged: [ErrMemory] when a
// part is missing or has another size, [ErrTooLong] when more segments were
// given than fit.
func (r *Requester) AppendCall(b []byte, c *Call) (head, body []byte, err error) {
	head, body, err = r.appendCall(b, c)
	c.formed = err == nil
	return head, body, err
}

func (r *Requester) appendCall(b []byte, c *Call) (head, body []byte, err error) {
	if c.Plan == (Plan{}) && len(c.Message.Items) == 0 {
		return r.appendShort(b, c)
	}
	if !c.offer() {
		return b, nil, ErrMemory
	}
	h := Header{XID: c.XID, Vers: Version, Credit: r.window.Request(), Type: MsgTypeMsg, Lists: c.lists}
	inline := 0
	if c.Plan.Form == FormLong {
		h.Type = MsgTypeNoMsg
	} else {
		inline = c.Message.ReducedLen(c.out)
	}
	if c.Plan.Padded {
		if b, ok := r.appendPadded(b, c, &h, inline); ok {
			return b, nil, nil
		}
	}
	if h.Size()+inline > r.cfg.SendSize {
		return b, nil, ErrTooLong
	}
	head = h.Append(b)
	if inline > 0 {
		c.pieces = c.Message.Pieces(c.pieces[:0], c.out)
		big := r.cfg.GatherMin
		if !c.endsWithItem() {
			big = 0
		}
		head, body = gather(head, c.pieces, big)
	}
	return head, body, nil
}

// endsWithItem reports whether the last of c.pieces is the data of the last item.
func (c *Call) endsWithItem() bool {
	n := len(c.Message.Items)
	if n == 0 || c.out.Has(n-1) {
		return false
	}
	last, item := c.pieces[len(c.pieces)-1], c.Message.Items[n-1].Data
	return len(last) == len(item) && len(item) > 0 && &last[0] == &item[0]
}

// appendShort is AppendCall for a call without items and chunks, as most are.
func (r *Requester) appendShort(b []byte, c *Call) (head, body []byte, err error) {
	if MinHeaderSize+len(c.Message.Head)+len(c.Message.Body) > r.cfg.SendSize {
		return b, nil, ErrTooLong
	}
	c.lists.Reset()
	head = appendShortHeader(b, c.XID, r.window.Request())
	return append(append(head, c.Message.Head...), c.Message.Body...), nil, nil
}

// appendPadded appends a call as an RDMA_MSGP, unless more segments were given
// than leave room for the padding.
func (r *Requester) appendPadded(b []byte, c *Call, h *Header, inline int) ([]byte, bool) {
	pad, it := padding{r.cfg.Align, r.cfg.AlignMin}, &c.Message.Items[0]
	if !pad.fits(h.Size(), inline, len(it.Data), r.cfg.SendSize) {
		return b, false
	}
	c.pieces = c.Message.Pieces(c.pieces[:0], c.out)
	r.stats.Padded++
	return pad.appendPadded(b, h, c.pieces, it.Pos, len(it.Data)), true
}

// gather appends pieces to head. If big is not 0, a last piece of at least big octets
// is not copied but returned as body.
func gather(head []byte, pieces [][]byte, big int) (h, body []byte) {
	if n := len(pieces); n > 0 && big > 0 && len(pieces[n-1]) >= big {
		body, pieces = pieces[n-1], pieces[:n-1]
	}
	for _, p := range pieces {
		head = append(head, p...)
	}
	return head, body
}

// offer fills c.lists from c.Memory as c.Plan says and reports whether the
// memory is what was planned.
func (c *Call) offer() bool {
	c.lists.Reset()
	if c.Plan.Stream > 0 && !c.offerRead(0, c.Memory.Stream, c.Plan.Stream) {
		return false
	}
	if c.Plan.Arg && !c.offerItem(0, c.Memory.Arg) {
		return false
	}
	for i := 1; c.Plan.More != 0 && i < len(c.Message.Items); i++ {
		if c.Plan.More.Has(i) && (i > len(c.Memory.More) || !c.offerItem(i, c.Memory.More[i-1])) {
			return false
		}
	}
	if c.Plan.Sink {
		if !c.offerSink(c.Memory.Sink, c.Sink) || len(c.MoreSinks) > len(c.Memory.MoreSinks) {
			return false
		}
		for i, n := range c.MoreSinks {
			if !c.offerSink(c.Memory.MoreSinks[i], n) {
				return false
			}
		}
	}
	if c.Plan.Reply > 0 {
		c.lists.HasReply = true
		c.lists.Reply = append(c.lists.Reply, c.Memory.Reply...)
		return exactly(c.lists.Reply, c.Plan.Reply)
	}
	return true
}

func (c *Call) offerItem(i int, mem chunks.WriteChunk) bool {
	it := &c.Message.Items[i]
	return int64(it.Pos) <= math.MaxUint32 && c.offerRead(uint32(it.Pos), mem, len(it.Data))
}

func (c *Call) offerSink(mem chunks.WriteChunk, n int) bool {
	w := c.lists.AddWrite()
	*w = append(*w, mem...)
	return exactly(*w, n)
}

func (c *Call) offerRead(pos uint32, mem chunks.WriteChunk, n int) bool {
	for _, s := range mem {
		c.lists.Read = append(c.lists.Read, chunks.ReadSegment{Position: pos, Segment: s})
	}
	return exactly(mem, n)
}

func exactly(c chunks.WriteChunk, n int) bool { return c.Room() == uint64(n) }
