package rpcrdma

import "github.com/stag-rdma/stag/chunks"

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
	r.stats.Exposed++
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
	r.stats.Dones++
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
