package rpcrdma

import (
	"github.com/stag-rdma/stag/chunks"
	"github.com/stag-rdma/stag/xdr"
)

// Reply is how a reply leaves, made by [Responder.Reply]. First Writes are
// posted, in order, then one Send of Head and Body; nothing need be waited for
// in between (RFC 8166 Section 4.3.3; RDMA Writes and Sends of one stream are
// delivered in order). It may be reused; it keeps its memory.
type Reply struct {
	Form Form
	// Writes are the RDMA Writes: views of the message, borrowed until they have
	// left.
	Writes []chunks.Write
	// Head is the Send: the buffer given to Reply with the header and inline octets
	// appended. If the inline octets end with a run of at least GatherMin octets, that
	// run is not copied: Body is a view of it, and the end of the Send. Else Body is
	// nil. Head's new octets and Body together never exceed SendSize.
	Head, Body []byte
	// Invalidate is the handle to name in a Send with Invalidate, if
	// HasInvalidate: the first one the call offered.
	Invalidate    chunks.Handle
	HasInvalidate bool
	// Expose is the memory that the peer is to read, if the reply fits nowhere else:
	// then Head is not made yet, see [Responder.Expose]. Views of the message,
	// borrowed until the RDMA_DONE.
	Expose []Exposure
	// Owner belongs to the owner, which can find its own record of an exposed reply by
	// it. The package does not use it; Reset drops it.
	Owner any
	// Err is set when ERR_CHUNK is sent instead: [ErrNoFit], or chunks.ErrItem for
	// items that are not in order in their message. The call was executed nevertheless.
	Err error

	pieces [][]byte
	xid    uint32 // of an exposed reply
	padded bool   // as an RDMA_MSGP
}

// Reset drops all views and keeps memory.
func (out *Reply) Reset() {
	clear(out.Writes)
	clear(out.pieces)
	clear(out.Expose)
	out.Writes, out.Expose, out.pieces = out.Writes[:0], out.Expose[:0], out.pieces[:0]
	out.Form, out.Head, out.Body, out.Invalidate, out.HasInvalidate = 0, nil, nil, 0, false
	out.Owner, out.Err, out.xid, out.padded = nil, nil, 0, false
}

// Reply forms the reply m to a dispatched call in out and appends the Send to b,
// which becomes out.Head. m is borrowed until Writes and Body have left; its
// items are the DDP-eligible results, in order.
//
// Each item takes the next write chunk, unless that is empty (RFC 8166 Section
// 4.3.2); what is left goes inline if it fits SendSize, header included, else to
// the reply chunk (RFC 8166 Section 4.3.3). Chunks come back with the octets
// used, unused ones with 0. If anything does not fit, out is an ERR_CHUNK and
// nothing is written (RFC 8166 Section 4.5.3).
//
// With profile RFC5666 a reply that fits nowhere is left in out.Expose, if the
// peer can read; Writes are made all the same.
//
// Choice: a reply that fits goes inline even if a reply chunk was offered, unless
// Config.PreferReplyChunk. A Send invalidates one handle (RFC 8797 Section 4.1); that
// is the first which the call offers, and none with an exposed reply.
func (r *Responder) Reply(b []byte, in *Inbound, m *chunks.Message, out *Reply) {
	out.Reset()
	if in.Header.Lists.Empty() && len(m.Items) == 0 && r.cfg.GatherMin == 0 &&
		MinHeaderSize+len(m.Head)+len(m.Body) <= r.cfg.SendSize { // as most are
		b = appendShortHeader(b, in.Header.XID, r.credits.Grant(in.Header.Credit))
		out.Head = append(append(b, m.Head...), m.Body...)
		return
	}
	err := m.Check()
	if err == nil {
		err = r.form(in, m, out)
	}
	if err != nil {
		out.Form, out.Err = FormError, err
		in.refusal = refuseErrChunk
		out.Head = r.appendError(b, in)
		return
	}
	if len(out.Expose) > 0 {
		out.Head = b
		return
	}
	h := in.replyHeader(r.credits.Grant(in.Header.Credit))
	switch {
	case out.Form == FormLong:
		h.Type = MsgTypeNoMsg
		out.Head = h.Append(b)
		out.Writes = chunks.AppendWrites(out.Writes, h.Reply, out.pieces)
	case out.padded:
		pad, it := padding{r.cfg.Align, r.cfg.AlignMin}, &m.Items[0]
		out.Head = pad.appendPadded(b, &h, out.pieces, it.Pos, len(it.Data))
	default:
		out.Head, out.Body = gather(h.Append(b), out.pieces, r.cfg.GatherMin)
	}
	if r.cfg.RemoteInvalidate { // of several the client revokes the others: to revoke one less is still less
		out.Invalidate, out.HasInvalidate = in.handle()
	}
}

// replyHeader returns the header of an RDMA_MSG that returns all chunks.
func (in *Inbound) replyHeader(grant uint32) Header {
	h := Header{XID: in.Header.XID, Vers: Version, Credit: grant, Lists: in.Header.Lists}
	h.Read = nil
	return h
}

// form checks that everything fits; only then it fills the chunks, and sets
// out.Form, the pieces of the reduced stream, and the writes of the items.
func (r *Responder) form(in *Inbound, m *chunks.Message, out *Reply) error {
	l := &in.Header.Lists
	reduced, over := assign(l.Write, m.Items)
	n := m.ReducedLen(reduced)
	hdr := in.headerSize()
	long := l.HasReply && hdr <= r.cfg.SendSize && uint64(n) <= l.Reply.Room()
	inline := hdr+n <= r.cfg.SendSize
	switch {
	case over != 0 || !inline && !long:
		if err := r.expose(in, m, reduced, over, out); err != nil {
			return err
		}
		l.Reply.Clear()
	case long && (!inline || r.cfg.PreferReplyChunk):
		out.Form = FormLong
		_ = l.Reply.Fill(n) // long says that they fit
		out.pieces = m.Pieces(out.pieces, reduced)
	default:
		out.Form = FormShort
		if reduced != 0 {
			out.Form = FormChunked
		}
		out.padded = r.pads(in, m, reduced, hdr, n)
		out.pieces = m.Pieces(out.pieces, reduced)
		l.Reply.Clear()
	}
	for i, c := range l.Write {
		if !reduced.Has(i) {
			c.Clear()
			continue
		}
		data := m.Items[i].Data
		_ = c.Fill(len(data)) // assign has checked it
		out.Writes = chunks.AppendWrite(out.Writes, c, data)
	}
	return nil
}

// assign decides which items leave by write chunk: item i by chunk i, unless
// that is empty or there is none. over are those too large for theirs.
func assign(write []chunks.WriteChunk, items []chunks.Item) (s, over chunks.Set) {
	for i := range items {
		switch {
		case i >= len(write) || len(write[i]) == 0:
		case uint64(len(items[i].Data)) > write[i].Room():
			over = over.With(i)
		default:
			s = s.With(i)
		}
	}
	return s, over
}

// pads reports whether the reply goes as an RDMA_MSGP.
func (r *Responder) pads(in *Inbound, m *chunks.Message, reduced chunks.Set, hdr, n int) bool {
	pad := padding{r.cfg.Align, r.cfg.AlignMin}
	return chunks.WalkerOf(r.cfg.Binding, in.RPC.Prog, in.RPC.Vers) != nil && !reduced.Has(0) &&
		pad.fits(hdr, n, firstItem(m), r.cfg.SendSize)
}

// appendGarbage appends GARBAGE_ARGS, if the header that returns the chunks
// leaves room for it.
func (r *Responder) appendGarbage(b []byte, in *Inbound) ([]byte, bool) {
	for _, c := range in.Header.Write {
		c.Clear()
	}
	in.Header.Reply.Clear()
	h := in.replyHeader(0)
	reply := xdr.ReplyHeader{XID: h.XID, Accept: xdr.GarbageArgs}
	if h.Size()+reply.Size() > r.cfg.SendSize {
		return b, false
	}
	h.Credit = r.credits.Grant(in.Header.Credit)
	return xdr.AppendReply(h.Append(b), &reply), true
}

// Replies with a read list (RFC 5666 Section 3.8): the responder exposes memory
// and keeps it until the RDMA_DONE. Profile RFC5666 only.

// Exposure is memory that the owner registers for remote read: the data of a result, in the read
// chunk at Pos. If Pos is 0, it is the stream of a long reply. If Data is nil then, the owner
// allocates Octets octets and fills them by [Reply.AppendStream], so that nothing else is
// exposed.
type Exposure struct {
	Pos    uint32
	Octets int
	Data   []byte
}

// exposed are the replies whose RDMA_DONE has not come, oldest first.
type exposed struct {
	list   []*Reply
	octets int64
}

// take removes the oldest reply to xid; nil if there is none.
func (e *exposed) take(xid uint32) *Reply {
	for i, out := range e.list {
		if out.xid == xid {
			copy(e.list[i:], e.list[i+1:])
			e.list[len(e.list)-1] = nil
			e.list = e.list[:len(e.list)-1]
			e.octets -= out.exposedOctets()
			return out
		}
	}
	return nil
}

func (out *Reply) exposedOctets() (n int64) {
	for i := range out.Expose {
		n += int64(out.Expose[i].Octets)
	}
	return n
}

// Expose admits a reply that Reply has left with out.Expose, and reports whether
// it may leave now. If so the owner posts the receives that Credits().Need() asks
// for, registers the memory, sends what [Responder.AppendExposed] makes, and keeps
// out and the memory until Receive returns the Verdict Done with it, or the
// connection has ended. If not, the reply is withheld: the owner asks again after
// each Done, oldest first.
//
// At least one reply may always be exposed, so that each one withheld waits for an
// RDMA_DONE that is on its way.
func (r *Responder) Expose(out *Reply) bool {
	e, n := &r.exposed, out.exposedOctets()
	if len(e.list) > 0 && (len(e.list) >= r.cfg.MaxExposed || e.octets+n > r.cfg.MaxExposedOctets) {
		return false
	}
	e.list = append(e.list, out)
	e.octets += n
	r.credits.Expose()
	return true
}

// Refuse gives up a reply that Reply has left with out.Expose and Expose has not
// admitted: out becomes an ERR_CHUNK, appended to b.
func (r *Responder) Refuse(b []byte, in *Inbound, out *Reply) {
	out.Reset()
	out.Form, out.Err = FormError, ErrNoFit
	in.refusal = refuseErrChunk
	out.Head = r.appendError(b, in)
}

// Exposed returns the replies whose RDMA_DONE has not come, oldest first, and the
// octets they hold. The slice is lent until the next call of a method.
func (r *Responder) Exposed() (list []*Reply, octets int64) {
	return r.exposed.list, r.exposed.octets
}

// AppendExposed appends the Send of a reply that Expose has admitted. mem has the
// registered memory of each element of out.Expose, one segment each.
func (r *Responder) AppendExposed(b []byte, in *Inbound, out *Reply, mem []chunks.Segment) []byte {
	h := in.replyHeader(r.credits.Grant(in.Header.Credit))
	for i := range out.Expose {
		h.Read = append(h.Read, chunks.ReadSegment{Position: out.Expose[i].Pos, Segment: mem[i]})
	}
	if out.Form == FormLong {
		h.Type = MsgTypeNoMsg
		out.Head = h.Append(b)
	} else {
		out.Head, out.Body = gather(h.Append(b), out.pieces, r.cfg.GatherMin)
	}
	return out.Head
}

// AppendStream appends the stream of a long reply that is exposed.
func (out *Reply) AppendStream(b []byte) []byte {
	for _, p := range out.pieces {
		b = append(b, p...)
	}
	return b
}

// release finds the reply that an RDMA_DONE is for.
func (r *Responder) release(in *Inbound) bool {
	in.Done = r.exposed.take(in.Header.XID)
	if in.Done == nil {
		return false
	}
	r.credits.Done()
	return true
}

// expose forms a reply that fits nowhere else: large items become read chunks, and
// what is then still too large becomes the Position Zero chunk (RFC 5666 Section
// 5.1). reduced are the items that leave by write chunk, over those too large for
// theirs.
func (r *Responder) expose(in *Inbound, m *chunks.Message, reduced, over chunks.Set, out *Reply) error {
	if !r.cfg.Reads || r.cfg.Profile != RFC5666 {
		return ErrNoFit
	}
	gone := reduced
	hdr := in.headerSize()
	for i := range m.Items {
		it := &m.Items[i]
		large := len(it.Data) >= r.cfg.ExposeMin && r.mayReduce(in, i)
		if reduced.Has(i) || !large && !over.Has(i) {
			continue
		}
		if gone = gone.With(i); gone.Has(i) {
			out.Expose = append(out.Expose, Exposure{uint32(it.Pos), len(it.Data), it.Data})
			hdr += readChunkSize
		}
	}
	n := m.ReducedLen(gone)
	out.pieces = m.Pieces(out.pieces, gone)
	out.Form = FormChunked
	if hdr+n > r.cfg.SendSize {
		out.Form = FormLong
		hdr += readChunkSize
		out.Expose = append(out.Expose, Exposure{})
		copy(out.Expose[1:], out.Expose)
		out.Expose[0] = Exposure{Octets: n}
		if len(out.pieces) == 1 {
			out.Expose[0].Data = out.pieces[0]
		}
	}
	if hdr > r.cfg.SendSize || out.exposedOctets() > r.cfg.MaxExposedOctets {
		out.Expose = out.Expose[:0]
		return ErrNoFit
	}
	out.xid = in.Header.XID
	return nil
}

// headerSize returns the octets of an RDMA_MSG header that returns all chunks.
func (in *Inbound) headerSize() int {
	h := in.replyHeader(0)
	return h.Size()
}

// mayReduce reports whether item i may leave by a read chunk: the eligible result, or
// any where no binding speaks for the program.
func (r *Responder) mayReduce(in *Inbound, i int) bool {
	call := &in.RPC
	if !chunks.Covers(r.cfg.Binding, call.Prog, call.Vers) {
		return true
	}
	_, result := r.cfg.Binding.Eligible(call.Prog, call.Vers, call.Proc)
	return result && i == 0
}
