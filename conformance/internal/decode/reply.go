package decode

import (
	"fmt"
	"slices"

	"github.com/stag-rdma/stag/chunks"
	"github.com/stag-rdma/stag/rpcrdma"
)

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
