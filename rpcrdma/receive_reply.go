package rpcrdma

import (
	"github.com/stag-rdma/stag/chunks"
	"github.com/stag-rdma/stag/xdr"
)

// Receive takes a Send from the peer and returns the call it answers, with its
// Result. The call is then no longer outstanding, its credit is back and the
// grant is in force; its memory may be given back after invalidation. Views in
// Result are lent as long as send is.
//
// If the Send answers nothing, the call is nil and why says so: it does not
// decode, its XID is unknown, its type or direction is wrong, or the XID of its
// RPC message is another (RFC 8166 Section 4.5, "silently discard").
//
// Whatever else is wrong with a reply fails its call (RFC 8166 Section 6.1): a
// read list, chunks that are not those offered, an item reduced or not against
// the rules, a length that disagrees with the count.
func (r *Requester) Receive(send []byte) (c *Call, why error) {
	c, why = r.receive(send)
	if c == nil {
		r.stats.Dropped++
		return nil, why
	}
	r.remove(c)
	r.window.Grant(r.hdr.Credit)
	r.window.Release()
	r.stats.Replies++
	if c.Result.Err != nil {
		r.stats.Failed++
	}
	return c, nil
}

func (r *Requester) receive(send []byte) (*Call, error) {
	h := &r.hdr
	n, err := h.Decode(send, &r.cfg.Limits)
	if err != nil {
		return nil, err
	}
	c := r.Lookup(h.XID)
	if c == nil {
		return nil, ErrUnknownXID
	}
	res := Result{ItemPos: -1}
	switch h.Type {
	case MsgTypeError:
		res.Err = &RemoteError{h.Err, h.Low, h.High}
	case MsgTypeMsg:
		if err := checkDirection(send[n:], h.XID, xdr.MsgReply); err != nil {
			return nil, err
		}
		placed, err := c.returned(h, &res)
		if err == nil {
			err = r.judge(c, &res, send[n:], placed)
		}
		res.fail(h.XID, err)
	case MsgTypeNoMsg:
		placed, err := c.returned(h, &res)
		if res.Long = true; err == nil && res.ReplyLen == 0 {
			err = ErrNoReplyChunk
		}
		res.ItemLen = placed // kept for CheckReply
		res.fail(h.XID, err)
	default:
		return nil, ErrType
	}
	c.Result = res
	return c, nil
}

func (res *Result) fail(xid uint32, err error) {
	if err != nil {
		res.Err = &ProtocolError{xid, err}
	}
}

// checkDirection looks at the first two words of an RPC message.
func checkDirection(msg []byte, xid, want uint32) error {
	got, typ, ok := xdr.PeekXID(msg)
	switch {
	case !ok || typ > xdr.MsgReply:
		return ErrRPC
	case got != xid:
		return ErrXID
	case typ != want:
		return ErrDirection
	}
	return nil
}

// returned compares the lists of a reply with those offered. It returns the
// octets in the sink and sets res.ReplyLen, the octets in the reply memory.
//
// Choice: a write chunk or reply chunk that does not come back counts as unused;
// RFC 5666 servers, and Linux for reply chunks, leave them out.
func (c *Call) returned(h *Header, res *Result) (placed int, err error) {
	if len(h.Read) > 0 {
		return 0, ErrReadList
	}
	if len(h.Write) > len(c.lists.Write) {
		return 0, chunks.ErrReturned
	}
	for i := range h.Write {
		if placed, err = chunks.Returned(c.lists.Write[i], h.Write[i]); err != nil {
			return 0, err
		}
	}
	if h.HasReply {
		if !c.lists.HasReply {
			return 0, chunks.ErrReturned
		}
		if res.ReplyLen, err = chunks.Returned(c.lists.Reply, h.Reply); err != nil {
			return 0, err
		}
		if h.Type == MsgTypeMsg && res.ReplyLen > 0 {
			return 0, chunks.ErrReturned // octets in both places
		}
	}
	return placed, nil
}

// CheckReply completes c.Result for a long reply from the octets in the reply
// memory, of which it borrows the first Result.ReplyLen; the views it sets alias
// them. It returns c.Result.Err. For a reply that was not long it changes
// nothing.
func (r *Requester) CheckReply(c *Call, memory []byte) error {
	res := &c.Result
	if !res.Long || res.Err != nil {
		return res.Err
	}
	placed := res.ItemLen
	res.ItemLen = 0
	err := ErrMemory
	if len(memory) >= res.ReplyLen {
		msg := memory[:res.ReplyLen]
		if err = checkDirection(msg, c.XID, xdr.MsgReply); err == nil {
			err = r.judge(c, res, msg, placed)
		}
	}
	if res.fail(c.XID, err); err != nil {
		r.stats.Failed++
	}
	return res.Err
}

// judge parses the RPC reply and compares its eligible result with the octets
// that were placed in the sink.
func (r *Requester) judge(c *Call, res *Result, msg []byte, placed int) error {
	d := xdr.NewDecoder(msg)
	if err := res.RPC.Parse(&d); err != nil {
		return err
	}
	res.Results = d.Rest()
	ok := !res.RPC.Denied && res.RPC.Accept == xdr.Success
	if r.cfg.Binding == nil {
		res.Placed, res.ItemLen = placed > 0, placed
		return nil
	}
	pos, n := 0, 0
	if ok {
		pos, n, ok = r.cfg.Binding.FindResult(c.Prog, c.Vers, c.Proc, res.Results)
	}
	switch {
	case !ok && placed > 0:
		return ErrNotEligible
	case !ok:
		return nil
	case !c.Plan.Sink:
		// Whether the data are all there is for the decoder of the results.
		res.ItemPos, res.ItemLen = pos, n
		return nil
	case n > 0 && placed == 0:
		return ErrNotReduced
	case !(chunks.Placed{Len: placed}).Holds(n):
		return ErrItemLength
	}
	res.Placed, res.ItemPos, res.ItemLen = true, pos, n
	return nil
}
