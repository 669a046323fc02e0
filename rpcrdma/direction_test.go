package rpcrdma_test

import (
	"testing"

	"github.com/stag-rdma/stag/chunks"
	"github.com/stag-rdma/stag/rpcrdma"
)

// TestForRequester: the message tells the direction, whatever lists stand before it, and no
// prefix of it is read beyond its end (RFC 8167 Section 5).
func TestForRequester(t *testing.T) {
	seg := chunks.Segment{Handle: 1, Length: 8, Offset: 9}
	lists := chunks.Lists{
		Read:     []chunks.ReadSegment{{Position: 44, Segment: seg}, {Position: 44, Segment: seg}},
		Write:    []chunks.WriteChunk{{seg, seg}, {}},
		HasReply: true, Reply: chunks.WriteChunk{seg},
	}
	head := func(typ rpcrdma.MsgType, l chunks.Lists) []byte {
		h := rpcrdma.Header{XID: 7, Vers: rpcrdma.Version, Credit: 1, Type: typ, Lists: l}
		return h.Append(nil)
	}
	const (
		call    = 1
		reply   = 2
		unclear = 3
	)
	for _, tc := range []struct {
		name string
		send []byte
		want int
	}{
		{"call", append(head(rpcrdma.MsgTypeMsg, chunks.Lists{}), rpcCall(7, 0)...), call},
		{"reply", append(head(rpcrdma.MsgTypeMsg, chunks.Lists{}), rpcReply(7)...), reply},
		{"call behind lists", append(head(rpcrdma.MsgTypeMsg, lists), rpcCall(7, 0)...), call},
		{"reply behind lists", append(head(rpcrdma.MsgTypeMsg, lists), rpcReply(7)...), reply},
		{"msg_type 2", append(head(rpcrdma.MsgTypeMsg, chunks.Lists{}), 0, 0, 0, 7, 0, 0, 0, 2), unclear},
		{"no message", head(rpcrdma.MsgTypeMsg, chunks.Lists{}), unclear},
		{"long call", head(rpcrdma.MsgTypeNoMsg, chunks.Lists{Read: []chunks.ReadSegment{{Segment: seg}}}), call},
		{"long call with a reply chunk", head(rpcrdma.MsgTypeNoMsg, lists), call},
		{"long reply", head(rpcrdma.MsgTypeNoMsg, chunks.Lists{HasReply: true, Reply: chunks.WriteChunk{seg}}), reply},
		{"RDMA_NOMSG without lists", head(rpcrdma.MsgTypeNoMsg, chunks.Lists{}), unclear},
		{"RDMA_ERROR", (&rpcrdma.Header{XID: 7, Vers: rpcrdma.Version, Type: rpcrdma.MsgTypeError, Err: rpcrdma.ErrChunk}).Append(nil), reply},
		{"RDMA_ERROR, version 2", (&rpcrdma.Header{XID: 7, Vers: 2, Type: rpcrdma.MsgTypeError, Err: rpcrdma.ErrVers}).Append(nil), reply},
		{"RDMA_DONE", (&rpcrdma.Header{XID: 7, Vers: rpcrdma.Version, Type: rpcrdma.MsgTypeDone}).Append(nil), call},
		{"RDMA_MSGP", append(head(rpcrdma.MsgTypeMsgP, chunks.Lists{}), rpcCall(7, 0)...), unclear},
		{"unknown type", append(head(77, chunks.Lists{}), rpcCall(7, 0)...), unclear},
		{"version 2", unhex(t, "00000007 00000002 00000001 00000000 00000000 00000000 00000000 00000007 00000001"), unclear},
		{"a count beyond the end", unhex(t, "00000007 00000001 00000001 00000000 00000000 00000001 ffffffff 00000007 00000001"), unclear},
		{"nothing", nil, unclear},
	} {
		for _, byDefault := range []bool{true, false} {
			want := tc.want == reply || tc.want == unclear && byDefault
			if got := rpcrdma.ForRequester(tc.send, byDefault); got != want {
				t.Errorf("%s, by default %v: %v", tc.name, byDefault, got)
			}
			for n := range tc.send { // must not reach beyond the end
				rpcrdma.ForRequester(tc.send[:n:n], byDefault)
			}
		}
	}
	send := append(head(rpcrdma.MsgTypeMsg, lists), rpcReply(7)...)
	if n := testing.AllocsPerRun(100, func() { rpcrdma.ForRequester(send, true) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// FuzzForRequester: what a machine takes is what ForRequester gives it: a Send that decodes
// as the one kind is never given to the other.
func FuzzForRequester(f *testing.F) {
	f.Add(append((&rpcrdma.Header{XID: 7, Vers: 1, Credit: 1}).Append(nil), rpcCall(7, 0)...))
	f.Add(append((&rpcrdma.Header{XID: 7, Vers: 1, Credit: 1}).Append(nil), rpcReply(7)...))
	f.Add((&rpcrdma.Header{XID: 7, Vers: 1, Type: rpcrdma.MsgTypeNoMsg, Lists: chunks.Lists{HasReply: true}}).Append(nil))
	f.Fuzz(func(t *testing.T, send []byte) {
		var in rpcrdma.Inbound
		r := newResponder(rpcrdma.ResponderConfig{})
		if v := r.Receive(send, &in); v == rpcrdma.Dispatch && rpcrdma.ForRequester(send, true) {
			t.Errorf("a call is taken for a reply: %x", send)
		}
		q := made(rpcrdma.NewRequester(rpcrdma.RequesterConfig{}))
		if len(send) < rpcrdma.FixedSize {
			return
		}
		c := &rpcrdma.Call{Message: chunks.Message{Head: rpcCall(0, 0)}}
		c.XID = uint32(send[0])<<24 | uint32(send[1])<<16 | uint32(send[2])<<8 | uint32(send[3])
		noErr(t, q.Begin(c))
		if got, _ := q.Receive(send); got != nil && got.Result.Err == nil && !rpcrdma.ForRequester(send, false) {
			t.Errorf("a reply is taken for a call: %x", send)
		}
	})
}
