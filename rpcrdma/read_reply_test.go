package rpcrdma_test

import (
	"errors"
	"testing"

	"github.com/stag-rdma/stag/chunks"
	"github.com/stag-rdma/stag/rpcrdma"
)

// readAsker is a client of profile rfc5666 with one call outstanding, XID 5: a READ unless
// change makes it another, with a sink of 800 octets and a reply chunk of 2000.
func readAsker(t *testing.T, cfg rpcrdma.RequesterConfig, change func(*rpcrdma.Call)) (*rpcrdma.Requester, *rpcrdma.Call) {
	cfg.Profile, cfg.Binding = rpcrdma.RFC5666, chunks.NFSv3
	q := made(rpcrdma.NewRequester(cfg))
	c := &rpcrdma.Call{XID: 5, Prog: 100003, Vers: 3, Proc: 6, Sink: 800, MaxReply: 2000, Message: chunks.Message{Head: rpcCall(5, 6)}}
	change(c)
	c.Memory = rpcrdma.Memory{Sink: oneSegment(1, 800), Reply: oneSegment(2, 2000)}
	noErr(t, errors.Join(q.Plan(c), q.Begin(c)))
	if _, _, err := q.AppendCall(nil, c); err != nil {
		t.Fatal(err)
	}
	return q, c
}

// doneDue takes the RDMA_DONE that is due to XID 5, and checks that there is one.
func doneDue(t *testing.T, q *rpcrdma.Requester) {
	t.Helper()
	var h rpcrdma.Header
	b, ok := q.AppendDone(nil)
	if _, err := h.Decode(b, nil); !ok || err != nil || len(b) != 16 || h.Type != rpcrdma.MsgTypeDone || h.XID != 5 {
		t.Errorf("RDMA_DONE %x, %v", b, ok)
	}
	if b, ok := q.AppendDone(nil); ok || q.DonesDue() != 0 {
		t.Errorf("another RDMA_DONE %x", b)
	}
}

// TestReadReplyJudged: what a reply with a read list says of its chunks is checked, before
// it is read and after that; and RDMA_DONE is due whatever is wrong with it (RFC 5666
// Section 3.4 and 3.5).
func TestReadReplyJudged(t *testing.T) {
	long := func(msg []byte) func([]byte) { return func(b []byte) { copy(b, msg) } }
	for _, tt := range []struct {
		name   string
		cfg    rpcrdma.RequesterConfig
		call   func(*rpcrdma.Call)
		h      rpcrdma.Header
		inline []byte
		fill   func([]byte) // what is read
		early  bool         // refused unread
		want   error
	}{
		{name: "as it should be", h: rpcrdma.Header{Lists: chunks.Lists{Read: readAt(44, 100)}}, inline: readOf(100)},
		{name: "as large as may be", cfg: rpcrdma.RequesterConfig{MaxRead: 147}, h: rpcrdma.Header{Lists: chunks.Lists{Read: readAt(44, 100)}}, inline: readOf(100)},
		{name: "too large", cfg: rpcrdma.RequesterConfig{MaxRead: 146}, h: rpcrdma.Header{Lists: chunks.Lists{Read: readAt(44, 100)}}, inline: readOf(100), early: true, want: chunks.ErrTooLarge},
		{name: "at another place", h: rpcrdma.Header{Lists: chunks.Lists{Read: readAt(40, 100)}}, inline: readOf(100), want: rpcrdma.ErrNotEligible},
		{name: "longer than its count", h: rpcrdma.Header{Lists: chunks.Lists{Read: readAt(44, 100)}}, inline: readOf(96), want: rpcrdma.ErrItemLength},
		{name: "with its pad", h: rpcrdma.Header{Lists: chunks.Lists{Read: readAt(44, 100)}}, inline: readOf(98)},
		{name: "two chunks", h: rpcrdma.Header{Lists: chunks.Lists{Read: append(readAt(44, 100), readAt(144, 4)...)}}, inline: readOf(100), want: rpcrdma.ErrNotEligible},
		{name: "written and to be read", h: rpcrdma.Header{Lists: chunks.Lists{Read: readAt(44, 8), Write: []chunks.WriteChunk{oneSegment(1, 8)}}}, inline: readOf(8), want: rpcrdma.ErrNotEligible},
		{name: "Position odd", h: rpcrdma.Header{Lists: chunks.Lists{Read: readAt(42, 8)}}, inline: readOf(8), early: true, want: chunks.ErrPosition},
		{name: "GSS protects the body", call: func(c *rpcrdma.Call) { c.Protected, c.Sink = true, 0 }, h: rpcrdma.Header{Lists: chunks.Lists{Read: readAt(44, 100)}}, inline: readOf(100), want: rpcrdma.ErrNotEligible},
		{name: "long", h: rpcrdma.Header{Type: rpcrdma.MsgTypeNoMsg, Lists: chunks.Lists{Read: readAt(0, 24)}}, fill: long(rpcReply(5))},
		{name: "long, another XID", h: rpcrdma.Header{Type: rpcrdma.MsgTypeNoMsg, Lists: chunks.Lists{Read: readAt(0, 24)}}, fill: long(rpcReply(6)), want: rpcrdma.ErrXID},
		{name: "long, a call", h: rpcrdma.Header{Type: rpcrdma.MsgTypeNoMsg, Lists: chunks.Lists{Read: readAt(0, 40)}}, fill: long(rpcCall(5, 6)), want: rpcrdma.ErrDirection},
		{name: "long, in the reply chunk too", h: rpcrdma.Header{Type: rpcrdma.MsgTypeNoMsg, Lists: chunks.Lists{Read: readAt(0, 24), HasReply: true, Reply: oneSegment(2, 24)}}, early: true, want: chunks.ErrReturned},
		{name: "long, no Position 0", h: rpcrdma.Header{Type: rpcrdma.MsgTypeNoMsg, Lists: chunks.Lists{Read: readAt(44, 24)}}, early: true, want: chunks.ErrNoStream},
		{name: "no binding", call: anyCall, h: rpcrdma.Header{Lists: chunks.Lists{Read: readAt(28, 100)}}, inline: append(rpcReply(5), u32s(100)...)},
		{name: "no binding, another count", call: anyCall, h: rpcrdma.Header{Lists: chunks.Lists{Read: readAt(28, 100)}}, inline: append(rpcReply(5), u32s(104)...), want: rpcrdma.ErrItemLength},
		{name: "a client that cannot read", cfg: rpcrdma.RequesterConfig{Credits: 1}, h: rpcrdma.Header{Lists: chunks.Lists{Read: readAt(44, 100)}}, inline: readOf(100), early: true, want: rpcrdma.ErrReadList},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.cfg.Reads = tt.cfg.Credits != 1
			if tt.call == nil {
				tt.call = func(*rpcrdma.Call) {}
			}
			q, c := readAsker(t, tt.cfg, tt.call)
			tt.h.XID, tt.h.Vers, tt.h.Credit = 5, 1, 9
			send := append(tt.h.Append(nil), tt.inline...)
			got, why := q.Receive(send)
			if got != c || !c.Result.Read {
				t.Fatalf("%v, %v, %+v", got, why, c.Result)
			}
			if tt.early != (c.Result.Err != nil) {
				t.Fatalf("before the Read: %v", c.Result.Err)
			}
			if !tt.early {
				if got, why := q.Receive(send); got != nil || !errors.Is(why, rpcrdma.ErrUnknownXID) {
					t.Errorf("a second reply meanwhile: %v", why)
				}
				buf := make([]byte, c.Layout.Total)
				c.Layout.Place(buf, c.Inline)
				if tt.fill != nil {
					tt.fill(buf)
				}
				_ = q.Pulled(c, buf)
			}
			if !errors.Is(c.Result.Err, tt.want) || tt.want == nil && c.Result.Err != nil || q.InFlight() != 0 {
				t.Errorf("%v, %d in flight", c.Result.Err, q.InFlight())
			}
			if err := c.Result.Err; !errors.Is(q.Pulled(c, nil), err) {
				t.Error("the verdict has changed")
			}
			doneDue(t, q)
		})
	}
}

// anyCall makes it a call of a program that no binding speaks for.
func anyCall(c *rpcrdma.Call) { c.Prog, c.Sink = anyProgram, 0 }
