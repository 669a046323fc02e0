package rpcrdma

import (
	"testing"

	"github.com/stag-rdma/stag/chunks"
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
	head := func(typ MsgType, l chunks.Lists) []byte {
		h := Header{XID: 7, Vers: Version, Credit: 1, Type: typ, Lists: l}
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
		{"call", append(head(MsgTypeMsg, chunks.Lists{}), rpcCall(7, 0)...), call},
		{"reply", append(head(MsgTypeMsg, chunks.Lists{}), rpcReply(7)...), reply},
		{"call behind lists", append(head(MsgTypeMsg, lists), rpcCall(7, 0)...), call},
		{"reply behind lists", append(head(MsgTypeMsg, lists), rpcReply(7)...), reply},
		{"msg_type 2", append(head(MsgTypeMsg, chunks.Lists{}), 0, 0, 0, 7, 0, 0, 0, 2), unclear},
		{"no message", head(MsgTypeMsg, chunks.Lists{}), unclear},
		{"long call", head(MsgTypeNoMsg, chunks.Lists{Read: []chunks.ReadSegment{{Segment: seg}}}), call},
		{"long call with a reply chunk", head(MsgTypeNoMsg, lists), call},
		{"long reply", head(MsgTypeNoMsg, chunks.Lists{HasReply: true, Reply: chunks.WriteChunk{seg}}), reply},
		{"RDMA_NOMSG without lists", head(MsgTypeNoMsg, chunks.Lists{}), unclear},
		{"RDMA_ERROR", (&Header{XID: 7, Vers: Version, Type: MsgTypeError, Err: ErrChunk}).Append(nil), reply},
		{"RDMA_ERROR, version 2", (&Header{XID: 7, Vers: 2, Type: MsgTypeError, Err: ErrVers}).Append(nil), reply},
		{"RDMA_DONE", (&Header{XID: 7, Vers: Version, Type: MsgTypeDone}).Append(nil), call},
		{"RDMA_MSGP", append(head(MsgTypeMsgP, chunks.Lists{}), rpcCall(7, 0)...), unclear},
		{"unknown type", append(head(77, chunks.Lists{}), rpcCall(7, 0)...), unclear},
		{"version 2", unhex(t, "00000007 00000002 00000001 00000000 00000000 00000000 00000000 00000007 00000001"), unclear},
		{"a count beyond the end", unhex(t, "00000007 00000001 00000001 00000000 00000000 00000001 ffffffff 00000007 00000001"), unclear},
		{"nothing", nil, unclear},
	} {
		for _, byDefault := range []bool{true, false} {
			want := tc.want == reply || tc.want == unclear && byDefault
			if got := ForRequester(tc.send, byDefault); got != want {
				t.Errorf("%s, by default %v: %v", tc.name, byDefault, got)
			}
			for n := range tc.send { // must not reach beyond the end
				ForRequester(tc.send[:n:n], byDefault)
			}
		}
	}
	send := append(head(MsgTypeMsg, lists), rpcReply(7)...)
	if n := testing.AllocsPerRun(100, func() { ForRequester(send, true) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// FuzzForRequester: what a machine takes is what ForRequester gives it: a Send that decodes
// as the one kind is never given to the other.
func FuzzForRequester(f *testing.F) {
	f.Add(append((&Header{XID: 7, Vers: 1, Credit: 1}).Append(nil), rpcCall(7, 0)...))
	f.Add(append((&Header{XID: 7, Vers: 1, Credit: 1}).Append(nil), rpcReply(7)...))
	f.Add((&Header{XID: 7, Vers: 1, Type: MsgTypeNoMsg, Lists: chunks.Lists{HasReply: true}}).Append(nil))
	f.Fuzz(func(t *testing.T, send []byte) {
		var in Inbound
		r := newResponder(ResponderConfig{})
		if v := r.Receive(send, &in); v == Dispatch && ForRequester(send, true) {
			t.Errorf("a call is taken for a reply: %x", send)
		}
		q := NewRequester(RequesterConfig{})
		if len(send) < FixedSize {
			return
		}
		c := &Call{Message: chunks.Message{Head: rpcCall(0, 0)}}
		c.XID = uint32(send[0])<<24 | uint32(send[1])<<16 | uint32(send[2])<<8 | uint32(send[3])
		if err := q.Begin(c); err != nil {
			t.Fatal(err)
		}
		if got, _ := q.Receive(send); got != nil && got.Result.Err == nil && !ForRequester(send, false) {
			t.Errorf("a reply is taken for a call: %x", send)
		}
	})
}
