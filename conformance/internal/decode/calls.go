package decode

import (
	"slices"

	"github.com/stag-rdma/stag/chunks"
	"github.com/stag-rdma/stag/rdmap/ddp"
	"github.com/stag-rdma/stag/xdr"
)

// call is an RPC call that was seen and whose reply was not.
type call struct {
	xid       uint32
	frame     int // packet that completed its Send
	header    xdr.CallHeader
	known     bool   // header is valid
	protected bool   // by RPCSEC_GSS
	gss       string // RPC.GSS
	inline    []byte // copy of the inline part of a call with Read chunks
	msgp      bool   // inline came in an RDMA_MSGP
	padded    error  // why pads may be left in it

	reads  []readRegion // Read list, in its order
	writes [][]*region  // Write list
	reply  []*region    // Reply chunk
	pulled bool         // the contents of all Read chunks were seen and reported
}

// readRegion is a segment of a Read chunk.
type readRegion struct {
	pos uint32
	*region
}

// complete reports whether all octets of the Read chunks were seen.
func (c *call) complete() bool {
	for _, r := range c.reads {
		if !r.whole() {
			return false
		}
	}
	return true
}

// each calls f for every region of the call.
func (c *call) each(f func(*region)) {
	for _, r := range c.reads {
		f(r.region)
	}
	for _, w := range c.writes {
		for _, r := range w {
			f(r)
		}
	}
	for _, r := range c.reply {
		f(r)
	}
}

// offered makes regions of the memory that a call's header offers.
func (c *call) offered(l *chunks.Lists) {
	for _, s := range l.Read {
		c.reads = append(c.reads, readRegion{s.Position, &region{seg: s.Segment, call: c}})
	}
	for _, w := range l.Write {
		c.writes = append(c.writes, c.chunk(w))
	}
	if l.HasReply {
		c.reply = c.chunk(l.Reply)
	}
}

func (c *call) chunk(w chunks.WriteChunk) []*region {
	rs := make([]*region, 0, len(w))
	for _, s := range w {
		rs = append(rs, &region{seg: s, call: c})
	}
	return rs
}

// callTable holds the calls of one direction that wait for their replies, and the memory that they offer.
type callTable struct {
	byXID map[uint32]*call
	order []*call // oldest first; may hold calls that are gone from byXID
	mem   map[ddp.STag][]*region
}

// add enters a call; an earlier one with the same XID is forgotten. If there are more than limit, the oldest
// is forgotten.
func (t *callTable) add(c *call, limit int, mem *budget) {
	if old := t.byXID[c.xid]; old != nil {
		t.remove(old, mem)
	}
	if t.byXID == nil {
		t.byXID, t.mem = make(map[uint32]*call), make(map[ddp.STag][]*region)
	}
	t.byXID[c.xid] = c
	c.each(func(r *region) {
		tag := ddp.STag(r.seg.Handle)
		t.mem[tag] = append(t.mem[tag], r)
	})
	t.order = append(t.order, c)
	for len(t.byXID) > limit {
		t.remove(t.order[0], mem)
	}
	t.trim()
}

// trim drops forgotten calls from the front of order, and from all of order once they outnumber those that
// wait.
func (t *callTable) trim() {
	gone := func(c *call) bool { return t.byXID[c.xid] != c }
	n := 0
	for n < len(t.order) && gone(t.order[n]) {
		n++
	}
	t.order = t.order[n:]
	if len(t.order) > 2*len(t.byXID)+64 {
		t.order = slices.DeleteFunc(t.order, gone)
	}
}

// remove forgets a call and the memory it offered.
func (t *callTable) remove(c *call, mem *budget) {
	if t.byXID[c.xid] != c {
		t.trim()
		return
	}
	delete(t.byXID, c.xid)
	c.each(func(r *region) {
		r.free(mem)
		t.forget(r)
	})
	t.trim()
}

// forget takes one region out of the index.
func (t *callTable) forget(r *region) {
	tag := ddp.STag(r.seg.Handle)
	rs := t.mem[tag]
	for i := range rs {
		if rs[i] == r {
			rs = append(rs[:i:i], rs[i+1:]...)
			break
		}
	}
	if len(rs) == 0 {
		delete(t.mem, tag)
		return
	}
	t.mem[tag] = rs
}

// find returns the youngest region with the tag that holds n octets from tagged offset to, and their offset
// in it.
func (t *callTable) find(tag ddp.STag, to uint64, n int) (*region, int) {
	for _, r := range slices.Backward(t.mem[tag]) {
		if off, ok := r.index(tag, to, n); ok {
			return r, off
		}
	}
	return nil, 0
}

// readList returns the Read list again.
func (c *call) readList() []chunks.ReadSegment {
	list := make([]chunks.ReadSegment, 0, len(c.reads))
	for _, r := range c.reads {
		list = append(list, chunks.ReadSegment{Position: r.pos, Segment: r.seg})
	}
	return list
}
