package requester

import (
	"context"
	"errors"
	"fmt"

	"github.com/stag-rdma/stag/chunks"
	"github.com/stag-rdma/stag/transport/rpc"
	"github.com/stag-rdma/stag/xdr"
)

// Before returns the arguments up to the item's data; all of them without an item.
func Before(c *rpc.Call) []byte {
	if c.Item == nil {
		return c.Args
	}
	return c.Args[:c.ItemPos]
}

// After returns the arguments after the item's data.
func After(c *rpc.Call) []byte {
	if c.Item == nil {
		return nil
	}
	return c.Args[c.ItemPos:]
}

// Size returns the octets of the unreduced arguments.
func Size(c *rpc.Call) int {
	n := len(c.Args) + len(c.Item) + xdr.Pad(len(c.Item))
	for i := range c.MoreItems {
		k := len(c.MoreItems[i].Data)
		n += k + xdr.Pad(k)
	}
	return n
}

// MostReply returns how many octets the record of a reply may have: what the call allows, or as much as
// fits inline over RDMA if it does not say.
func MostReply(c *rpc.Call, maxPayload int) int {
	if c.MaxResults < 0 {
		return maxPayload
	}
	n := inlineReply // as over RDMA, where a reply of that size needs no room
	if c.MaxResults > 0 {
		n = max(n, HeadRoom+c.MaxResults)
	}
	n += len(c.Sink) + xdr.Pad(len(c.Sink))
	for i := range c.MoreSinks {
		k := len(c.MoreSinks[i].Data)
		n += k + xdr.Pad(k)
	}
	return n
}

// Check refuses calls that are inconsistent or too large, and those that nobody waits for.
func Check(ctx context.Context, c *rpc.Call, maxPayload int) error {
	if ctx == nil { // it would panic where it is asked, under a lock
		return &rpc.RPCError{Reason: rpc.ReasonBadCall, Err: errors.New("the context is nil")}
	}
	if ctx.Err() != nil { // it would be sent, and run, and nobody would learn of it
		return &rpc.OpError{Op: rpc.OpCall, Err: context.Cause(ctx)}
	}
	if !Plain(c) {
		if err := checkItems(c); err != nil {
			return err
		}
	}
	if len(c.Args)%4 != 0 {
		return &rpc.RPCError{Reason: rpc.ReasonBadCall, Err: fmt.Errorf("arguments of %d octets, want a multiple of 4", len(c.Args))}
	}
	if len(c.Cred.Body) > xdr.MaxAuthBody {
		return &rpc.RPCError{Reason: rpc.ReasonBadCall, Err: fmt.Errorf("credential of %d octets, at most %d", len(c.Cred.Body), xdr.MaxAuthBody)}
	}
	if len(c.Verf.Body) > xdr.MaxAuthBody {
		return &rpc.RPCError{Reason: rpc.ReasonBadCall, Err: fmt.Errorf("verifier of %d octets, at most %d", len(c.Verf.Body), xdr.MaxAuthBody)}
	}
	if n := Size(c) + callHeaderMax; n > maxPayload {
		return &rpc.RPCError{Reason: rpc.ReasonTooBig, Err: fmt.Errorf("call of %d octets, want at most %d", n, maxPayload)}
	}
	return nil
}

// Plain reports whether the call has neither items nor sinks, like most calls.
func Plain(c *rpc.Call) bool {
	return c.Item == nil && c.Sink == nil && c.ItemMemory == nil && c.SinkMemory == nil && len(c.MoreItems)+len(c.MoreSinks) == 0
}

// checkItems is Check for the items and sinks.
func checkItems(c *rpc.Call) error {
	if c.Item != nil && (c.ItemPos < 4 || c.ItemPos > len(c.Args) || c.ItemPos%4 != 0) {
		return &rpc.RPCError{Reason: rpc.ReasonBadCall, Err: fmt.Errorf("item position %d, want a multiple of 4 in 4 to %d", c.ItemPos, len(c.Args))}
	}
	for _, m := range [...]*rpc.Memory{c.ItemMemory, c.SinkMemory} {
		if m != nil && m.InUse() { // refused even if the call would go inline, so that the bug shows
			return &rpc.RPCError{Reason: rpc.ReasonBadCall, Err: rpc.ErrMemoryInUse}
		}
	}
	if err := checkMore(c); err != nil {
		return &rpc.RPCError{Reason: rpc.ReasonBadCall, Err: err}
	}
	return nil
}

const (
	// inlineReply is how many octets a reply may have for which a client makes no room.
	inlineReply = 4096

	// ReplyHeaderSize is the size in octets of an accepted reply's header with an empty verifier (RFC 5531
	// Section 9).
	ReplyHeaderSize = 24

	// HeadRoom is the most octets before the results in the record of a reply: its mark and the largest
	// reply header.
	HeadRoom = 4 + ReplyHeaderSize + xdr.MaxAuthBody
)

// callHeaderMax is the size of the largest RPC call header in octets.
const callHeaderMax = 40 + 2*xdr.MaxAuthBody

// checkMore refuses further items and sinks that contradict the call.
func checkMore(c *rpc.Call) error {
	pos := c.ItemPos
	if len(c.MoreItems) > 0 && c.Item == nil {
		return fmt.Errorf("MoreItems without Item")
	}
	for i := range c.MoreItems {
		it := &c.MoreItems[i]
		if it.Pos < pos+4 || it.Pos%4 != 0 || it.Pos > len(c.Args) {
			return fmt.Errorf("position %d of item %d, want a multiple of 4 in %d to %d", it.Pos, i+2, pos+4, len(c.Args))
		}
		if pos = it.Pos; it.Memory != nil && it.Memory.InUse() {
			return rpc.ErrMemoryInUse
		}
	}
	if n := 1 + len(c.MoreSinks); n > chunks.DefaultMaxWriteChunks {
		return fmt.Errorf("%d sinks, want at most %d", n, chunks.DefaultMaxWriteChunks)
	}
	for i := range c.MoreSinks {
		if m := c.MoreSinks[i].Memory; m != nil && m.InUse() {
			return rpc.ErrMemoryInUse
		}
	}
	return nil
}

// AppendArgs appends the unreduced arguments.
func AppendArgs(c *rpc.Call, b []byte) []byte {
	b = append(b, Before(c)...)
	b = append(b, c.Item...)
	b = xdr.AppendPad(b, len(c.Item))
	from := len(Before(c))
	for i := range c.MoreItems {
		it := &c.MoreItems[i]
		b = append(b, c.Args[from:it.Pos]...)
		b = append(b, it.Data...)
		b = xdr.AppendPad(b, len(it.Data))
		from = it.Pos
	}
	return append(b, c.Args[from:]...)
}

// Sign has the verifier of a call filled, of which header is the whole header.
func Sign(c *rpc.Call, header []byte) {
	if c.Sign == nil {
		return
	}
	n := len(c.Verf.Body)
	at := len(header) - n - xdr.Pad(n) // the verifier is last, behind its flavor and length
	c.Sign(header[:at-8:at-8], header[at:at+n:at+n])
}

// Freed tells the caller that its memory is free.
func Freed(c *rpc.Call) {
	if c.Free != nil {
		c.Free()
	}
}

// TakeItem sets r.Item, so that callers need not care how their result came. A result larger than its room is refused,
// as the server refuses it where it comes by chunk: r is released, and the error is a *RoomError.
func TakeItem(r *rpc.Reply, call *rpc.Call, b chunks.Binding) error {
	switch {
	case len(call.Sink) == 0 || len(call.MoreSinks) > 0:
	case r.Placed:
		r.Item = call.Sink[:r.Lens[0]]
	case r.Header.Err() == nil && !call.Cred.Protected():
		return takeInline(r, call, b)
	}
	return nil
}

// takeInline is TakeItem for a result that came inline. It leaves alone what it cannot find.
func takeInline(r *rpc.Reply, call *rpc.Call, b chunks.Binding) error {
	res := r.Results
	pos, n, ok := b.FindResult(call.Prog, call.Vers, call.Proc, res)
	if !ok || n > len(res)-pos || xdr.Pad(n) > len(res)-pos-n {
		return nil
	}
	if n > len(call.Sink) {
		e := &rpc.RPCError{XID: r.Header.XID, Reason: rpc.ReasonTooBig, Err: &rpc.RoomError{Room: len(call.Sink), Result: n}}
		r.Release()
		return e
	}
	r.Item, r.Results = res[pos:pos+n:pos+n], res[:pos:pos]
	if tail := res[pos+n+xdr.Pad(n):]; len(tail) > 0 {
		r.Results = append(r.Results, tail...) // elsewhere: the item stays where it is
	}
	return nil
}

// Limits returns the limits of the chunk lists in one header, for messages of at most maxPayload octets. Their sum
// includes what is offered for both directions, hence the factor.
func Limits(maxPayload int) chunks.Limits {
	return chunks.Limits{MaxOctets: 2*uint64(maxPayload) + 64<<10}
}
