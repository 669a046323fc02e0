package rpcrdma

import (
	"encoding/binary"

	"github.com/stag-rdma/stag/chunks"
	"github.com/stag-rdma/stag/xdr"
)

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
	r.stats.Reads++
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
	err := ErrNotRead
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
		return ErrItemLength
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
			return ErrItemLength
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
	r.stats.Dones++
	return h.Append(b), true
}
