package decode

import (
	"errors"
	"fmt"
	"slices"

	"github.com/stag-rdma/stag/chunks"
	"github.com/stag-rdma/stag/rdmap/ddp"
	"github.com/stag-rdma/stag/rpcrdma"
	"github.com/stag-rdma/stag/xdr"
)

// rpcState is what the RPC-over-RDMA messages of one connection leave behind for later ones.
type rpcState struct {
	opt    Options
	mem    *budget
	calls  [2]callTable     // by the direction of the call
	reads  [2][]ReadRequest // Read Requests not answered yet, by their direction, oldest first
	vague  bool             // octets are missing: reads may lack some, and hold some that were answered
	layout chunks.Layout
}

func newRPCState(opt Options, mem *budget) *rpcState {
	return &rpcState{opt: opt, mem: mem}
}

// headerLimits is what a decoder accepts: more than any peer does, but still bounded by the length of a
// message.
var headerLimits = chunks.Limits{MaxReadSegments: 4096, MaxWriteChunks: 256, MaxSegments: 4096, MaxOctets: 1 << 30}

// release forgets everything.
func (s *rpcState) release() {
	for i := range s.calls {
		t := &s.calls[i]
		for _, c := range t.order {
			if t.byXID[c.xid] == c {
				c.each(func(r *region) { r.free(s.mem) })
			}
		}
		*t = callTable{}
		s.reads[i] = nil
	}
}

// send decodes a Send.
func (c *Conn) send(ev *Event) {
	if c.Info.ULP == ULPAuto {
		c.Info.ULP = guessULP(ev.Message.Payload)
		if c.Info.ULP == ULPOpaque && c.Info.Unknown != 0 {
			c.Info.ULP = ULPAuto // this may not be the first Send: the next one decides
		}
	}
	if c.Info.ULP == ULPRPCRDMA {
		c.rpc.send(ev)
	}
}

// guessULP decides by the first Send of a connection that has no private data of RFC 8797. A message counts
// as RPC-over-RDMA if its header decodes and an RPC message that follows has the same XID and is a call or a
// reply.
func guessULP(b []byte) ULP {
	var h rpcrdma.Header
	n, err := h.Decode(b, &headerLimits)
	if err != nil || h.Vers != rpcrdma.Version {
		return ULPOpaque
	}
	switch h.Type {
	case rpcrdma.MsgTypeMsg, rpcrdma.MsgTypeMsgP:
		xid, typ, ok := xdr.PeekXID(b[n:])
		if !ok || xid != h.XID || typ > xdr.MsgReply {
			return ULPOpaque
		}
	case rpcrdma.MsgTypeNoMsg:
		if len(b) > n || len(h.Read) == 0 && !h.HasReply {
			return ULPOpaque
		}
	default:
		return ULPOpaque // a connection does not begin with any other type
	}
	return ULPRPCRDMA
}

// send decodes the RPC-over-RDMA header in a Send and the RPC message after it.
func (s *rpcState) send(ev *Event) {
	b := ev.Message.Payload
	h := new(rpcrdma.Header)
	n, err := h.Decode(b, &headerLimits)
	if err != nil {
		ev.fail(fmt.Errorf("RPC-over-RDMA header: %w", err))
		if len(b) >= rpcrdma.FixedSize {
			ev.Header = h
		}
		return
	}
	ev.Header = h
	body := b[n:]
	switch h.Type {
	case rpcrdma.MsgTypeMsg, rpcrdma.MsgTypeMsgP:
		s.inline(ev, body)
	case rpcrdma.MsgTypeNoMsg:
		s.long(ev)
	case rpcrdma.MsgTypeError:
		s.close(ev, s.calls[1-ev.Dir].byXID[h.XID])
	case rpcrdma.MsgTypeDone: // says nothing more
	}
	if h.Type != rpcrdma.MsgTypeMsg && h.Type != rpcrdma.MsgTypeMsgP && len(body) > 0 {
		ev.fail(fmt.Errorf("%w: %d octets after the header", ErrTrailing, len(body)))
	}
}

// inline handles an RPC message that came in the Send.
func (s *rpcState) inline(ev *Event, msg []byte) {
	xid, typ, ok := xdr.PeekXID(msg)
	switch {
	case !ok:
		ev.fail(fmt.Errorf("%w: RPC message of %d octets", ErrShort, len(msg)))
	case typ == xdr.MsgCall:
		s.inlineCall(ev, msg)
	case typ == xdr.MsgReply:
		s.inlineReply(ev, msg)
	default:
		ev.fail(fmt.Errorf("%w: RPC message type %d", xdr.ErrRange, typ))
	}
	if ok && xid != ev.Header.XID {
		ev.fail(fmt.Errorf("XID %#08x in the transport header, %#08x in the RPC message", ev.Header.XID, xid))
	}
}

// open enters the call that a header announces into the table.
func (s *rpcState) open(ev *Event) *call {
	c := &call{xid: ev.Header.XID, frame: ev.Frame}
	c.offered(&ev.Header.Lists)
	s.calls[ev.Dir].add(c, s.opt.MaxCalls, s.mem)
	return c
}

// know keeps the header of a call.
func (c *call) know(r *RPC) {
	if r.Call != nil {
		c.known, c.protected, c.gss, c.header = true, r.protected, r.GSS, *r.Call
		c.header.Cred.Body, c.header.Verf.Body = nil, nil
	}
}

// inlineCall handles a call that came in the Send, perhaps with an argument in Read chunks.
func (s *rpcState) inlineCall(ev *Event, msg []byte) {
	c := s.open(ev)
	msg, err := unpad(ev, msg)
	r := &RPC{Whole: len(c.reads) == 0, msgp: ev.Header.Type == rpcrdma.MsgTypeMsgP}
	r.parseCall(msg)
	r.padded(err)
	c.know(r)
	if len(c.reads) > 0 {
		c.inline, c.msgp, c.padded = slices.Clone(msg), r.msgp, err
	}
	s.give(ev, r)
}

// long handles RDMA_NOMSG (RFC 8166 Section 3.5.3): a call in Position Zero chunks, which must be pulled
// first, or a reply in the Reply chunk, which was filled before.
func (s *rpcState) long(ev *Event) {
	h := ev.Header
	positionZero := len(h.Read) > 0 && h.Read[0].Position == 0
	switch {
	case positionZero && s.calls[1-ev.Dir].byXID[h.XID] != nil:
		// Choice: with the XID of a waiting call this is a reply for the client to pull (RFC 5666 Section
		// 3.4), not a call of the backward direction (RFC 8167). What the client pulls is not followed.
		r := &RPC{IsReply: true, XID: h.XID}
		c := s.answered(ev, r)
		s.give(ev, r)
		s.close(ev, c)
	case positionZero:
		s.open(ev)
	case h.HasReply:
		s.longReply(ev)
	default:
		ev.fail(fmt.Errorf("RDMA_NOMSG without a message: %w", chunks.ErrNoStream))
	}
}

// give finishes an RPC and attaches it to its event.
func (s *rpcState) give(ev *Event, r *RPC) {
	caller := ev.Dir
	if r.IsReply {
		caller = 1 - ev.Dir
	}
	ev.Conn.guessInitiator(r, caller)
	r.Backward = caller != ev.Conn.Initiator
	r.decodeBody(ev.Header)
	r.doubt()
	ev.RPC = r
	if r.Err != nil {
		ev.fail(r.Err)
	}
}

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

// budget bounds the octets of all the memory that is remembered at one time.
type budget struct{ left int }

// take grants n octets or nothing.
func (b *budget) take(n int) bool {
	if n > b.left {
		return false
	}
	b.left -= n
	return true
}

// region is a memory segment that one side offered in a chunk list, with what the capture shows of its
// contents: the octets that RDMA Writes put there, or that Read Responses carried away.
type region struct {
	seg  chunks.Segment
	data []byte // the first octets of the segment; grows as they are seen
	seen ranges // which octets of data are known
	full bool   // the budget did not allow all of it
	call *call  // who offered it
}

// index returns the offset in the region of the octet at to, and whether n octets from there are
// inside it.
func (r *region) index(stag ddp.STag, to uint64, n int) (int, bool) {
	if uint32(stag) != uint32(r.seg.Handle) || to < r.seg.Offset {
		return 0, false
	}
	off := to - r.seg.Offset
	if off > uint64(r.seg.Length) || uint64(n) > uint64(r.seg.Length)-off {
		return 0, false
	}
	return int(off), true
}

// place copies b to offset off, which index has checked.
func (r *region) place(off int, b []byte, mem *budget) {
	if grow := off + len(b) - len(r.data); grow > 0 {
		if !mem.take(grow) {
			r.full = true
			return
		}
		r.data = append(r.data, make([]byte, grow)...)
	}
	copy(r.data[off:], b)
	r.seen.add(off, off+len(b))
}

// bytes returns n octets from off if all of them were seen.
func (r *region) bytes(off, n int) ([]byte, bool) {
	if !r.seen.covers(off, off+n) {
		return nil, false
	}
	return r.data[off : off+n : off+n], true
}

// whole reports whether all octets of the segment were seen.
func (r *region) whole() bool { return r.seen.covers(0, int(r.seg.Length)) }

// free returns the region's memory to the budget.
func (r *region) free(mem *budget) {
	mem.left += len(r.data)
	r.data, r.seen = nil, nil
}

// ranges is a set of octets as ascending, disjoint, non-touching half-open intervals.
type ranges [][2]int

// maxRanges bounds a set; contents that arrive out of order in more pieces than that are not remembered.
const maxRanges = 1024

// add adds [from, to).
func (s *ranges) add(from, to int) {
	if from >= to {
		return
	}
	v := *s
	i, _ := slices.BinarySearchFunc(v, from, func(r [2]int, f int) int { return r[1] - f })
	j := i
	for j < len(v) && v[j][0] <= to {
		from, to = min(from, v[j][0]), max(to, v[j][1])
		j++
	}
	if i == j && len(v) >= maxRanges {
		return
	}
	*s = slices.Replace(v, i, j, [2]int{from, to})
}

// covers reports whether all of [from, to) is in the set.
func (s ranges) covers(from, to int) bool {
	if from >= to {
		return true
	}
	for _, r := range s {
		if r[0] <= from && to <= r[1] {
			return true
		}
	}
	return false
}

// inlineReply handles a reply that came in the Send, perhaps with a result in a Write chunk.
func (s *rpcState) inlineReply(ev *Event, msg []byte) {
	msg, err := unpadReply(ev, msg, s.calls[1-ev.Dir].byXID[ev.Header.XID])
	r := &RPC{IsReply: true, Whole: len(ev.Header.Read) == 0, msgp: ev.Header.Type == rpcrdma.MsgTypeMsgP}
	r.parseReply(msg)
	c := s.answered(ev, r)
	r.padded(err)
	if c != nil && r.Reply != nil {
		if used(ev.Header.Write) {
			r.Whole = r.Whole && r.unreduce(func(n int) ([]byte, bool) { return firstUsed(ev.Header.Write, c.writes, n) })
		}
	}
	s.give(ev, r)
	s.close(ev, c)
}

// longReply handles a reply that came in the Reply chunk.
func (s *rpcState) longReply(ev *Event) {
	r := &RPC{IsReply: true, XID: ev.Header.XID}
	c := s.answered(ev, r)
	if c != nil {
		if msg, ok := gather(ev.Header.Reply, c.reply); ok {
			r.Whole = true
			r.parseReply(msg)
			if used(ev.Header.Write) {
				r.Whole = r.unreduce(func(n int) ([]byte, bool) { return firstUsed(ev.Header.Write, c.writes, n) })
			}
		} else {
			r.Err = fmt.Errorf("%w: Reply chunk", ErrNotPlaced)
		}
	}
	s.give(ev, r)
	s.close(ev, c)
}

// answered returns the call that a reply's header names, nil if it was not seen.
func (s *rpcState) answered(ev *Event, r *RPC) *call {
	c := s.calls[1-ev.Dir].byXID[ev.Header.XID]
	if c == nil {
		r.Err = ErrNoCall
		return nil
	}
	r.answers(c)
	return c
}

// close ends a call that was answered.
func (s *rpcState) close(ev *Event, c *call) {
	if c != nil {
		s.calls[1-ev.Dir].remove(c, s.mem)
	}
}

// used reports whether any octet was written to a Write list.
func used(list []chunks.WriteChunk) bool {
	return slices.ContainsFunc(list, func(w chunks.WriteChunk) bool { return w.Room() > 0 })
}

// firstUsed returns the n octets of the first chunk that was written to.
func firstUsed(list []chunks.WriteChunk, offered [][]*region, n int) ([]byte, bool) {
	for i, w := range list {
		if w.Room() > 0 && i < len(offered) {
			b, ok := gather(w, offered[i])
			if !ok || len(b) < n {
				return nil, false
			}
			return b[:n], true
		}
	}
	return nil, false
}

// gather joins the octets written to a chunk; the returned lengths say how many there are in each offered
// segment.
func gather(returned chunks.WriteChunk, offered []*region) ([]byte, bool) {
	if len(returned) > len(offered) {
		return nil, false
	}
	var all []byte
	for i, seg := range returned {
		b, ok := offered[i].bytes(0, int(seg.Length))
		if !ok {
			return nil, false
		}
		all = append(all, b...)
	}
	return all, true
}

// unpad returns the call in a Send: msg, or what is left of an RDMA_MSGP without its pads (RFC 5666 Section
// 3.9). After an error some pads may be left in it.
func unpad(ev *Event, msg []byte) ([]byte, error) {
	if ev.Header.Type != rpcrdma.MsgTypeMsgP {
		return msg, nil
	}
	msg, err := rpcrdma.UnpadCall(ev.Header, ev.Message.Payload, chunks.NFS)
	return msg, padError(ev.Header, err)
}

// unpadReply is unpad for the reply to c. If c is nil, the call was not seen, and nobody knows where there
// are pads in the results.
func unpadReply(ev *Event, msg []byte, c *call) ([]byte, error) {
	if ev.Header.Type != rpcrdma.MsgTypeMsgP {
		return msg, nil
	}
	var asked call
	if c != nil {
		asked = *c
	}
	h := &asked.header
	msg, err := rpcrdma.UnpadReply(ev.Header, ev.Message.Payload, chunks.NFS, h.Prog, h.Vers, h.Proc)
	return msg, padError(ev.Header, err)
}

// padError says why pads were not removed.
func padError(h *rpcrdma.Header, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, rpcrdma.ErrPadding) && rpcrdma.PadsTo(h.Align):
		return ErrPadded
	}
	return fmt.Errorf("padding of RDMA_MSGP, rdma_align %d, rdma_thresh %d: %w", h.Align, h.Thresh, err)
}

// padded notes the error of unpad. An error in the RPC header is more important.
func (r *RPC) padded(err error) {
	if err != nil {
		r.Whole, r.pads = false, true
		if r.Err == nil {
			r.Err = err
		}
	}
}

// doubt withdraws the verdict on an RDMA_MSGP that does not decode. RFC 5666 does not say where the aligned
// positions count from; RFC 8166 Section 4.6.1 calls it incomplete. This package counts from the beginning
// of the Send. A sender may count otherwise, so its arguments need not be wrong.
func (r *RPC) doubt() {
	if r.msgp && r.Err != nil {
		r.Whole, r.Message, r.Compound = false, nil, nil
	}
}
