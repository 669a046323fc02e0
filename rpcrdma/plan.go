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
// still exceeds RecvSize (RFC 8166 Section 4.3.3). Call: the first item is
// reduced by the same rule; if the rest exceeds SendSize the call goes long.
// Choice: where the peer's alignment is known an item that fits inline with its
// padding is not reduced: that "obviates RDMA Read" (RFC 5666 Section 3.9).
//
// Errors: chunks.ErrItem, [ErrTooLong], [ErrInline].
func (r *Requester) Plan(c *Call) error {
	if err := c.Message.Check(); err != nil {
		return err
	}
	c.Plan, c.out = Plan{}, 0
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
	if item := firstItem(&c.Message); item > 0 && (hdr+n > r.cfg.SendSize || item >= r.cfg.ReduceMin) {
		c.Plan.Arg, c.Plan.Form, c.out = true, FormChunked, c.out.With(0)
		hdr += readChunkSize
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

// walks says whether the items of c can be found by who gets it as an RDMA_MSGP.
func (r *Requester) walks(c *Call) bool {
	w, ok := r.cfg.Binding.(chunks.Walker)
	return ok && w.Covers(c.Prog, c.Vers)
}

// planReply decides what memory the reply needs and returns the size of a call
// header that offers it.
func (r *Requester) planReply(c *Call) (hdr int) {
	hdr = MinHeaderSize
	reply := MinHeaderSize + c.MaxReply
	if c.Sink > 0 {
		whole := reply + c.Sink + xdr.Pad(c.Sink)
		if whole > r.cfg.RecvSize || c.Sink >= r.cfg.SinkMin {
			c.Plan.Sink = true
			hdr += writeChunkSize
			reply += writeChunkSize
		} else {
			reply = whole
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
