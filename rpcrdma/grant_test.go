package rpcrdma_test

import (
	"encoding/binary"
	"errors"
	"testing"

	"github.com/stag-rdma/stag/chunks"
	"github.com/stag-rdma/stag/rpcrdma"
	"github.com/stag-rdma/stag/xdr"
)

// ask begins a NULL call, and replyTo is the Send that answers it.
func ask(t *testing.T, q *rpcrdma.Requester, xid uint32) *rpcrdma.Call {
	t.Helper()
	c := &rpcrdma.Call{XID: xid, Message: chunks.Message{Head: rpcCall(xid, 0)}}
	noErr(t, q.Begin(c))
	send(t, q, c)
	return c
}

func replyTo(xid, credit uint32) []byte {
	return append((&rpcrdma.Header{XID: xid, Vers: 1, Credit: credit}).Append(nil), rpcReply(xid)...)
}

// TestGrantInForce: the latest reply counts, however late another is looked at, and with a
// backward direction too (RFC 8166 Section 3.3.1, RFC 8167 Section 4.2).
func TestGrantInForce(t *testing.T) {
	for _, both := range []bool{false, true} {
		q := made(rpcrdma.NewRequester(rpcrdma.RequesterConfig{Bidirectional: both}))
		grant := func(receive func([]byte) (*rpcrdma.Call, error), xid, credit uint32, want int) {
			t.Helper()
			if c, why := receive(replyTo(xid, credit)); c == nil || q.Window() != want {
				t.Errorf("both directions %v: window %d, want %d; %v", both, q.Window(), want, why)
			}
		}
		ask(t, q, 1)
		grant(q.Receive, 1, 4, 4)
		ask(t, q, 2)
		ask(t, q, 3)
		grant(q.Receive, 3, 6, 6)
		grant(q.ReceiveLate, 2, 3, 6)
		if c, why := q.ReceiveLate(replyTo(2, 1)); c != nil || why == nil || q.Window() != 6 {
			t.Errorf("a reply to nothing: %v, window %d", why, q.Window())
		}
		ask(t, q, 4)
		grant(q.Receive, 4, 5, 5)
	}
}

// TestGrantBesideDone: an RDMA_DONE that was paid for and has not left is not covered by a
// grant that comes meanwhile.
func TestGrantBesideDone(t *testing.T) {
	q, c := readAsker(t, rpcrdma.RequesterConfig{Reads: true}, func(*rpcrdma.Call) {})
	h := rpcrdma.Header{XID: 5, Vers: 1, Credit: 3, Lists: chunks.Lists{Read: readAt(44, 100)}}
	if got, why := q.Receive(append(h.Append(nil), readOf(100)...)); got != c {
		t.Fatal(why)
	}
	ask(t, q, 6)
	_ = q.Pulled(c, nil)
	if got, why := q.Receive(replyTo(6, 3)); got == nil {
		t.Fatal(why)
	}
	// Of 3 credits one is the RDMA_DONE's and one is kept for another.
	if n := q.Available(); n != 1 {
		t.Errorf("%d credits", n)
	}
	doneDue(t, q)
}

// TestSinksPadded: what is placed in a sink is as long as its count says, or up to three octets
// of pad longer; which is no part of the result (RFC 8166 Section 3.4.6.2).
func TestSinksPadded(t *testing.T) {
	for n := range 9 {
		for placed := range 14 {
			q := made(rpcrdma.NewRequester(rpcrdma.RequesterConfig{Binding: several{}, SinkMin: 1}))
			c := &rpcrdma.Call{XID: 9, Prog: anyProgram, Sink: 12, MoreSinks: []int{12}, MaxReply: 100}
			c.Message.Head = rpcCall(9, 0)
			if err := errors.Join(q.Plan(c), q.Begin(c)); err != nil || !c.Plan.Sink {
				t.Fatalf("%+v, %v", c.Plan, err)
			}
			c.Memory.Sink = oneSegment(7, 12)
			c.Memory.MoreSinks = []chunks.WriteChunk{oneSegment(8, 12)}
			if _, _, err := q.AppendCall(nil, c); err != nil {
				t.Fatal(err)
			}
			h := rpcrdma.Header{XID: 9, Vers: 1, Credit: 1}
			h.Write = []chunks.WriteChunk{oneSegment(7, 4), oneSegment(8, uint32(placed))}
			b := append(h.Append(nil), rpcReply(9)...)
			for _, v := range []int{2, 4, n} {
				b = binary.BigEndian.AppendUint32(b, uint32(v))
			}
			got, why := q.Receive(b)
			if got == nil {
				t.Fatal(why)
			}
			legal := placed == n || placed == n+xdr.Pad(n)
			if ok := c.Result.Err == nil; ok != (legal && placed <= 12) || ok && (c.Lens[0] != 4 || c.Lens[1] != n) {
				t.Errorf("%d octets placed of %d: lens %d, %v", placed, n, c.Lens, c.Result.Err)
			}
		}
	}
}
