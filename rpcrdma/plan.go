package rpcrdma

import (
	"github.com/stag-rdma/stag/chunks"
	"github.com/stag-rdma/stag/xdr"
)

// Header octets that one chunk of one segment adds.
const (
	readChunkSize  = 4 + chunks.ReadSegmentSize
	writeChunkSize = 4 + 4 + chunks.SegmentSize
	replyChunkSize = 4 + chunks.SegmentSize // its presence word is there anyway
)

// Plan decides the form of a call and of its reply from their sizes (RFC 8166
// Section 3.5) and sets c.Plan. It changes nothing else, so it may be called
// before a credit is there.
//
// Reply: a sink becomes a write chunk when the data would not fit inline or are
// at least ReduceMin octets; a reply chunk is offered when the largest reply
// still exceeds RecvSize (RFC 8166 Section 4.3.3). Call: items are reduced by
// the same rule, the longest first; if the rest exceeds SendSize the call goes long.
// Choice: if the peer's alignment is known, an item that fits inline with its padding is not
// reduced, so that "the need for servers to perform RDMA Read [...] is obviated" (RFC 5666
// Section 3.9).
//
// Errors: chunks.ErrItem, [ErrTooLong], [ErrInline].
func (r *Requester) Plan(c *Call) error {
	c.Plan = Plan{}
	c.out = 0
	if len(c.Message.Items) == 0 && c.Sink == 0 && len(c.MoreSinks) == 0 &&
		MinHeaderSize+len(c.Message.Head)+len(c.Message.Body) <= r.cfg.SendSize &&
		MinHeaderSize+c.MaxReply <= r.cfg.RecvSize {
		return nil // as most are
	}
	if err := c.Message.Check(); err != nil {
		return err
	}
	if r.cfg.NoChunks {
		return r.planInline(c)
	}
	hdr := r.planReply(c)

	n := c.Message.Len()
	pad := padding{r.cfg.Align, r.cfg.AlignMin}
	if item := firstItem(&c.Message); r.walks(c) && pad.fits(hdr, n, item, r.cfg.SendSize) {
		c.Plan.Padded = true
		return nil
	}
	for i := c.nextItem(r.cfg.ReduceMin); i >= 0; i = c.nextItem(r.cfg.ReduceMin) {
		hdr += c.reduce(i)
		n = c.Message.ReducedLen(c.out)
	}
	for i := c.nextItem(1); i >= 0 && hdr+n > r.cfg.SendSize; i = c.nextItem(1) {
		hdr += c.reduce(i)
		n = c.Message.ReducedLen(c.out)
	}
	if hdr+n > r.cfg.SendSize {
		c.Plan.Form, c.Plan.Stream = FormLong, n
		hdr += readChunkSize
		n = 0
	}
	if hdr+n > r.cfg.SendSize {
		return ErrTooLong
	}
	return nil
}

// walks reports whether the items of c can be found by who gets it as an RDMA_MSGP.
func (r *Requester) walks(c *Call) bool {
	return chunks.WalkerOf(r.cfg.Binding, c.Prog, c.Vers) != nil
}

// planReply decides what memory the reply needs and returns the size of a call
// header that offers it.
func (r *Requester) planReply(c *Call) (hdr int) {
	hdr = MinHeaderSize
	reply := MinHeaderSize + c.MaxReply
	if data, longest, list := c.sinks(); longest > 0 {
		if reply+data > r.cfg.RecvSize || longest >= r.cfg.SinkMin {
			c.Plan.Sink = true
			hdr += list
			reply += list
		} else {
			reply += data
		}
	}
	if reply > r.cfg.RecvSize {
		c.Plan.Reply = c.MaxReply
		hdr += replyChunkSize
	}
	return hdr
}

// firstItem returns the octets of the item that may be reduced.
func firstItem(m *chunks.Message) int {
	if len(m.Items) == 0 {
		return 0
	}
	return len(m.Items[0].Data)
}

// nextItem returns the longest item that is not reduced yet and has at least so many octets;
// -1: there is none.
func (c *Call) nextItem(least int) (next int) {
	next = -1
	for i := range c.Message.Items {
		if n := len(c.Message.Items[i].Data); n >= max(least, 1) && i < 64 && !c.out.Has(i) {
			next, least = i, n+1
		}
	}
	return next
}

// reduce takes item i out of the stream and returns what that adds to the header.
func (c *Call) reduce(i int) int {
	c.Plan.Form, c.out = FormChunked, c.out.With(i)
	if i == 0 {
		c.Plan.Arg = true
	} else {
		c.Plan.More = c.Plan.More.With(i)
	}
	return readChunkSize
}

// sinks returns the octets that the results for all sinks take inline, the longest sink, and
// the octets of the write list that offers them.
func (c *Call) sinks() (data, longest, list int) {
	add := func(n int) {
		data += n + xdr.Pad(n)
		longest = max(longest, n)
		if list += 4 + 4; n > 0 {
			list += chunks.SegmentSize
		}
	}
	add(c.Sink)
	for _, n := range c.MoreSinks {
		add(n)
	}
	return data, longest, list
}
