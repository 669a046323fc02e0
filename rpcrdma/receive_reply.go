package rpcrdma

import (
	"encoding/binary"
	"errors"
	"slices"

	"github.com/stag-rdma/stag/chunks"
	"github.com/stag-rdma/stag/xdr"
)

// Receive takes a Send from the peer and returns the call it answers, with its
// Result. The call is then no longer outstanding, its credit is back and the
// grant is in force; its memory may be given back after invalidation. Views in
// Result are lent as long as send is.
//
// If the Send answers nothing, the call is nil and why says the reason: it does not
// decode, its XID is unknown or that of a call for which there was no AppendCall yet,
// its type or direction is wrong, or its RPC message has another XID (RFC 8166
// Section 4.5, "silently discard"). If nobody waits for the call any more, it is returned
// all the same, with why as its error.
//
// Whatever else is wrong with a reply fails its call (RFC 8166 Section 6.1): a
// read list (unless Config.Reads), chunks that are not those offered, an item
// reduced or not against the rules, a length that disagrees with the count.
//
// If Result.Read, the call stays outstanding and keeps its credit: the owner
// makes memory of Layout.Total octets, places Inline in it, does Layout.Pulls,
// and calls [Requester.Pulled]. An RDMA_MSGP is closed up inside send.
func (r *Requester) Receive(send []byte) (c *Call, why error) { return r.take(send, true) }

// ReceiveLate is Receive for a Send that arrived before one that Receive has already taken:
// an owner may read the next Send while this one waits for its lock. The grant of such a Send
// is no longer the latest, and is not put in force.
func (r *Requester) ReceiveLate(send []byte) (c *Call, why error) { return r.take(send, false) }

// take is Receive for a Send that is the latest of those received, or not.
func (r *Requester) take(send []byte, latest bool) (c *Call, why error) {
	c, why = r.receive(send)
	if c == nil {
		return r.spoil(send, why), why
	}
	if (r.hdr.Type != MsgTypeError || !r.cfg.Bidirectional) && latest {
		r.window.Grant(r.hdr.Credit)
		for range r.paid {
			r.window.TakeDone() // not sent yet: the grant does not cover them
		}
	}
	if c.Result.Read && c.Result.Err == nil {
		c.reading = true
		return c, nil
	}
	r.answered(c)
	return c, nil
}

// spoil notes that a Send was dropped that its first word, which is the XID in every version, makes the reply to a
// call. A good one may still come, but if nobody waits for that, it returns the call, whose credit would be lost.
func (r *Requester) spoil(send []byte, why error) *Call {
	if len(send) < FixedSize || errors.Is(why, errDirection) { // a call the other way may have the same XID
		return nil
	}
	c := r.Lookup(binary.BigEndian.Uint32(send))
	if c == nil || c.reading || !c.formed {
		return nil
	}
	if c.spoiled = true; !c.Canceled {
		return nil
	}
	r.Refuse(c, why)
	return c
}

// Refuse fails an outstanding call with err as the reason, as a reply against the rules does: for an owner to whom a
// Send that Receive has dropped has shown that no good reply can follow. It reports whether c was waiting for one.
func (r *Requester) Refuse(c *Call, err error) bool {
	if !c.formed || c.reading {
		return false
	}
	c.Result = Result{ItemPos: -1}
	c.Result.fail(c.XID, err)
	r.answered(c)
	return true
}

// answered ends a call whose Result is there.
func (r *Requester) answered(c *Call) {
	r.remove(c)
	r.window.Release()
	if c.Result.Read {
		r.owe(c.XID)
	}
}

func (r *Requester) receive(send []byte) (*Call, error) {
	h := &r.hdr
	n, err := h.Decode(send, &r.cfg.Limits)
	if err != nil {
		return nil, err
	}
	c := r.Lookup(h.XID)
	if c == nil || c.reading || !c.formed {
		return nil, ErrUnknownXID
	}
	res := &c.Result // in place: a local Result would be allocated
	*res = Result{}
	res.ItemPos = -1
	switch h.Type {
	case MsgTypeError:
		res.Err = &RemoteError{h.Err, h.Low, h.High}
	case MsgTypeMsg, MsgTypeMsgP:
		if h.Type == MsgTypeMsgP && r.cfg.Profile != RFC5666 {
			return nil, errType
		}
		if err := checkDirection(send[n:], h.XID, xdr.MsgReply); err != nil {
			return nil, err
		}
		res.fail(h.XID, r.receiveInline(c, res, send[n:], n))
	case MsgTypeNoMsg:
		res.fail(h.XID, r.receiveLong(c, res))
	default:
		return nil, errType
	}
	return c, nil
}

// receiveInline judges a reply whose stream is inline, after a header of hdr octets.
func (r *Requester) receiveInline(c *Call, res *Result, stream []byte, hdr int) error {
	h := &r.hdr
	placed, err := r.returned(c, res)
	if err == nil && h.Type == MsgTypeMsgP {
		r.padded++
		if c.Protected {
			return ErrPadding // nobody can say where pads are in it
		}
		stream, err = closeReply(h, hdr, stream, r.cfg.Binding, c)
	}
	switch {
	case err != nil:
		return err
	case res.Read:
		return r.layOut(c, stream, placed)
	}
	return r.judge(c, res, stream, placed)
}

// receiveLong judges a reply without inline octets.
func (r *Requester) receiveLong(c *Call, res *Result) error {
	placed, err := r.returned(c, res)
	switch {
	case err != nil:
		return err
	case res.Read && res.ReplyLen > 0:
		return chunks.ErrReturned // octets in both places
	case res.Read:
		return r.layOut(c, nil, placed)
	case res.ReplyLen == 0:
		return errNoReplyChunk
	}
	res.Long, res.ItemLen = true, placed // kept for CheckReply
	return nil
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
		return errXID
	case typ != want:
		return errDirection
	}
	return nil
}

// returned compares the lists of a reply with those offered. It returns the
// octets in the sink and sets res.ReplyLen, the octets in the reply memory, and
// res.Read.
//
// Choice: a write chunk or reply chunk that does not come back counts as unused;
// RFC 5666 servers, and Linux for reply chunks, leave them out.
func (r *Requester) returned(c *Call, res *Result) (placed int, err error) {
	h := &r.hdr
	// Choice: with profile RFC5666 even a reply that is refused gets its
	// RDMA_DONE, so that the server need not wait for a deadline.
	res.Read = len(h.Read) > 0 && r.cfg.Profile == RFC5666
	if len(h.Read) > 0 && !(res.Read && r.cfg.Reads) {
		return 0, errReadList
	}
	if len(h.Write) > len(c.lists.Write) {
		return 0, chunks.ErrReturned
	}
	c.Lens = c.Lens[:0]
	for i := range c.lists.Write {
		n := 0
		if i < len(h.Write) {
			if n, err = chunks.Returned(c.lists.Write[i], h.Write[i]); err != nil {
				return 0, err
			}
		}
		c.Lens = append(c.Lens, n)
	}
	if len(c.Lens) > 0 {
		placed = c.Lens[0]
	}
	if h.HasReply {
		if !c.lists.HasReply {
			return 0, chunks.ErrReturned
		}
		if res.ReplyLen, err = chunks.Returned(c.lists.Reply, h.Reply); err != nil {
			return 0, err
		}
		if h.Type != MsgTypeNoMsg && res.ReplyLen > 0 {
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
	res.fail(c.XID, err)
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
	if c.Protected {
		if placed > 0 || len(c.Layout.Chunks) > 0 {
			return ErrNotEligible
		}
		return nil
	}
	ok := !res.RPC.Denied && res.RPC.Accept == xdr.Success
	b := r.binding(c)
	if b == nil {
		res.Placed, res.ItemLen = c.anyPlaced(), placed
		return nil
	}
	if l := chunks.ListerOf(b, c.Prog, c.Vers); l != nil || len(c.Lens) > 1 {
		return c.judgeSinks(l, res, ok)
	}
	pos, n := 0, 0
	if ok {
		pos, n, ok = b.FindResult(c.Prog, c.Vers, c.Proc, res.Results)
	}
	switch {
	case !ok && placed > 0:
		return ErrNotEligible
	case !ok:
		return nil
	case !c.Plan.Sink, res.Read && placed == 0:
		// The decoder of the results finds out whether all the data are there.
		res.ItemPos, res.ItemLen = pos, n
		return nil
	case n > 0 && placed == 0:
		return errNotReduced
	case !(chunks.Placed{Len: placed}).Holds(n):
		return errItemLength
	}
	res.Placed, res.ItemPos, res.ItemLen, c.Lens[0] = true, pos, n, n
	return nil
}

// anyPlaced reports whether any result is in its sink.
func (c *Call) anyPlaced() bool {
	return slices.ContainsFunc(c.Lens, func(n int) bool { return n > 0 })
}

// judgeSinks compares all eligible results with the octets that were placed in the sinks:
// result k has sink k (RFC 8166 Section 4.3.2.1). l is nil if the program can have one
// eligible result only and the call offers memory for more, which must then stay unused.
// success says that there are results at all.
func (c *Call) judgeSinks(l chunks.Lister, res *Result, success bool) error {
	if !success || l == nil {
		if c.anyPlaced() {
			return ErrNotEligible
		}
		return nil
	}
	k, bad := 0, error(nil)
	l.ListResults(c.Prog, c.Vers, c.Proc, res.Results, func(pos, n int) int {
		here, err := c.judgeSink(res, k, pos, n)
		if k++; err != nil {
			bad = err
			return -1
		}
		return here
	})
	switch {
	case bad != nil:
		return bad
	case k < len(c.Lens) && slices.ContainsFunc(c.Lens[k:], func(n int) bool { return n > 0 }):
		// Choice: also when the binding could not step over what comes before it.
		return ErrNotEligible
	}
	return nil
}

// judgeSink judges eligible result k, whose n octets are due at offset pos of the results. It
// returns how many octets of it, pad included, are inline there.
func (c *Call) judgeSink(res *Result, k, pos, n int) (here int, err error) {
	if k == 0 {
		res.ItemPos, res.ItemLen = pos, n
	}
	inline := n + xdr.Pad(n)
	switch {
	case k >= len(c.Lens), c.room(k) == 0, res.Read && c.Lens[k] == 0:
		return inline, nil
	case n > 0 && c.Lens[k] == 0:
		return 0, errNotReduced
	case !(chunks.Placed{Len: c.Lens[k]}).Holds(n):
		return 0, errItemLength
	}
	res.Placed = true
	c.Lens[k] = n
	return 0, nil
}

// room returns the octets of sink k.
func (c *Call) room(k int) int {
	if k == 0 {
		return c.Sink
	}
	return c.MoreSinks[k-1]
}

// Replies with a read list (RFC 5666 Section 3.5): the requester reads what the
// responder exposes and says so with an RDMA_DONE. Profile RFC5666 only.

// binding returns what speaks for the program of c, nil if there is none: then
// any opaque may have been reduced.
func (r *Requester) binding(c *Call) chunks.Binding {
	if r.cfg.Profile == RFC5666 && !chunks.Covers(r.cfg.Binding, c.Prog, c.Vers) {
		return nil
	}
	return r.cfg.Binding
}

// layOut prepares the reading of a reply, of which nothing has been allocated yet.
func (r *Requester) layOut(c *Call, inline []byte, placed int) error {
	lim := r.cfg.Limits
	if r.cfg.MaxRead > 0 {
		lim.MaxOctets = uint64(r.cfg.MaxRead)
	}
	c.Inline, c.placed = inline, placed
	if r.hdr.Type == MsgTypeNoMsg {
		return c.Layout.BuildLong(r.hdr.Read, &lim)
	}
	return c.Layout.Build(r.hdr.Read, len(inline), &lim)
}

// Pulled completes a call whose reply was read: buf is the whole reply, at least
// Layout.Total octets laid out as Layout says, and Result is set to views of it.
// With a nil buf the reply was not read, since nobody waits for it. Either way
// the call is no longer outstanding and an RDMA_DONE is due: see
// [Requester.AppendDone]. It returns c.Result.Err.
//
// A Read that fails has no outcome here: it ends the connection.
func (r *Requester) Pulled(c *Call, buf []byte) error {
	if !c.reading {
		return c.Result.Err
	}
	err := errNotRead
	if len(buf) >= c.Layout.Total {
		err = r.judgeRead(c, buf[:c.Layout.Total])
	}
	c.Result.fail(c.XID, err)
	c.reading, c.Inline = false, nil
	r.answered(c)
	return c.Result.Err
}

// judgeRead parses a reply that was read and compares its chunks with its counts.
func (r *Requester) judgeRead(c *Call, msg []byte) error {
	if err := checkDirection(msg, c.XID, xdr.MsgReply); err != nil {
		return err
	}
	res := &c.Result
	if err := r.judge(c, res, msg, c.placed); err != nil || c.Protected {
		return err
	}
	if r.binding(c) == nil || chunks.ListerOf(r.cfg.Binding, c.Prog, c.Vers) != nil {
		return checkCounts(msg, c.Layout.Chunks)
	}
	if len(c.Layout.Chunks) == 0 {
		return nil
	}
	at := c.Layout.Chunks[0]
	switch {
	case len(c.Layout.Chunks) > 1 || res.Placed || at.Pos != len(msg)-len(res.Results)+res.ItemPos:
		return ErrNotEligible
	case !at.Holds(res.ItemLen):
		return errItemLength
	}
	return nil
}

// checkCounts compares each chunk of a rebuilt message with the count word before
// its data: "Any byte count in the XDR stream MUST match the sum of the byte
// counts present in the corresponding read or write chunk list" (RFC 5666
// Section 3.4).
//
// Choice: only counted items are taken as chunks where no binding speaks for the
// program, since nothing else about them can be checked.
func checkCounts(msg []byte, list []chunks.Placed) error {
	for i := range list {
		at := &list[i]
		if n := binary.BigEndian.Uint32(msg[at.Pos-4:]); n > 1<<30 || !at.Holds(int(n)) {
			return errItemLength
		}
	}
	return nil
}

// owe notes an RDMA_DONE that is due. The credit of the call that has just ended is
// taken for it at once, before another call can.
func (r *Requester) owe(xid uint32) {
	r.due = append(r.due, xid)
	if r.window.TakeDone() {
		r.paid++
	}
}

// DonesDue returns how many RDMA_DONE wait to be sent.
func (r *Requester) DonesDue() int { return len(r.due) }

// AppendDone appends the next RDMA_DONE that is due, 16 octets, and reports
// whether there was one and a credit for it. Call it again until it says no, each
// time a reply was read and each time one was received, since a grant may come
// with it. After a true the owner sends what was appended as one Send.
//
// Choice: with no call in flight it goes out whatever the credits, since no
// grant is under way that it could wait for.
func (r *Requester) AppendDone(b []byte) ([]byte, bool) {
	switch {
	case len(r.due) == 0:
		return b, false
	case r.paid > 0:
		r.paid--
	case !r.window.TakeDone() && r.window.InFlight() > 0:
		return b, false
	}
	h := Header{XID: r.due[0], Vers: Version, Credit: r.window.Request(), Type: MsgTypeDone}
	r.due = append(r.due[:0], r.due[1:]...)
	return h.Append(b), true
}
