package rpcrdma_test

import (
	"errors"
	"testing"

	"github.com/stag-rdma/stag/chunks"
	"github.com/stag-rdma/stag/rpcrdma"
	"github.com/stag-rdma/stag/xdr"
)

// TestChunksRefused: read chunks that a program does not permit, or that say something else
// than the arguments, cost the call and not the connection (RFC 8166 Section 4.5.2 and 6.1).
func TestChunksRefused(t *testing.T) {
	gss := xdr.AppendCall(nil, &xdr.CallHeader{
		XID: 5, RPCVers: 2, Prog: 100003, Vers: 3, Proc: 7,
		Cred: xdr.Auth{Flavor: 6, Body: u32s(1, 0, 1, 2, 0)}, // integrity
	})
	write := func(head []byte, n uint32) []byte { return append(head, u32s(4, 0, 0, 0, n, 0, n)...) }
	items := append(u32s(5, 0, 2, anyProgram, 1, 1, 0, 0, 0, 0), u32s(1, 8)...)
	for _, tt := range []struct {
		name string
		cfg  rpcrdma.ResponderConfig
		read []chunks.ReadSegment
		msg  []byte
		v    rpcrdma.Verdict
		err  error
		answ rpcrdma.MsgType
	}{
		{"as it should be", rpcrdma.ResponderConfig{}, readAt(68, 8), write(rpcCall(5, 7), 8), rpcrdma.Pull, nil, 0},
		{"a second chunk", rpcrdma.ResponderConfig{}, append(readAt(68, 8), readAt(76, 4)...), write(rpcCall(5, 7), 8), rpcrdma.Answer, rpcrdma.ErrNotEligible, rpcrdma.MsgTypeError},
		{"GSS protects the body", rpcrdma.ResponderConfig{}, readAt(88, 8), write(gss, 8), rpcrdma.Answer, rpcrdma.ErrNotEligible, rpcrdma.MsgTypeError},
		{"another length", rpcrdma.ResponderConfig{}, readAt(68, 12), write(rpcCall(5, 7), 8), rpcrdma.Answer, rpcrdma.ErrItemLength, rpcrdma.MsgTypeMsg},
		{"arguments end before the count", rpcrdma.ResponderConfig{}, readAt(64, 8), write(rpcCall(5, 7), 8)[:64], rpcrdma.Answer, rpcrdma.ErrArgs, rpcrdma.MsgTypeMsg},
		{"several: as it should be", rpcrdma.ResponderConfig{Binding: several{chunks.NFSv3}}, readAt(48, 8), items, rpcrdma.Pull, nil, 0},
		{"several: another length", rpcrdma.ResponderConfig{Binding: several{chunks.NFSv3}}, readAt(48, 12), items, rpcrdma.Answer, rpcrdma.ErrItemLength, rpcrdma.MsgTypeMsg},
		{"several: at no item", rpcrdma.ResponderConfig{Binding: several{chunks.NFSv3}}, readAt(44, 8), items, rpcrdma.Answer, rpcrdma.ErrNotEligible, rpcrdma.MsgTypeError},
		{"several: one more than items", rpcrdma.ResponderConfig{Binding: several{chunks.NFSv3}}, append(readAt(48, 8), readAt(56, 4)...), items, rpcrdma.Answer, rpcrdma.ErrNotEligible, rpcrdma.MsgTypeError},
	} {
		r := newResponder(tt.cfg)
		h := rpcrdma.Header{XID: 5, Vers: 1, Credit: 1, Lists: chunks.Lists{Read: tt.read}}
		var in rpcrdma.Inbound
		if v := r.Receive(append(h.Append(nil), tt.msg...), &in); v != tt.v || !errors.Is(in.Err, tt.err) {
			t.Errorf("%s: %v, %v", tt.name, v, in.Err)
		} else if v == rpcrdma.Answer {
			var a rpcrdma.Header
			if _, err := a.Decode(r.AppendAnswer(nil, &in), nil); err != nil || a.Type != tt.answ {
				t.Errorf("%s: answered by %+v, %v", tt.name, a, err)
			}
		}
	}
}

// TestNoBinding: where nobody says what may be reduced, nothing may (RFC 8166 Section 6.1).
func TestNoBinding(t *testing.T) {
	r := made(rpcrdma.NewResponder(rpcrdma.ResponderConfig{}))
	post(r)
	h := rpcrdma.Header{XID: 5, Vers: 1, Credit: 1, Lists: chunks.Lists{Read: readAt(44, 8)}}
	var in rpcrdma.Inbound
	if v := r.Receive(append(append(h.Append(nil), rpcCall(5, 7)...), u32s(8)...), &in); v != rpcrdma.Answer || !errors.Is(in.Err, rpcrdma.ErrNotEligible) {
		t.Errorf("%v, %v", v, in.Err)
	}
}

// TestPaddedReplyRefused: an RDMA_MSGP that answers a call and does not decode fails that
// call and nothing else.
func TestPaddedReplyRefused(t *testing.T) {
	none := func(*rpcrdma.Call) {}
	for _, tt := range []struct {
		name  string
		align uint32
		call  func(*rpcrdma.Call)
		msg   []byte
		err   error
	}{
		{"as it should be", 16, none, append(readOf(0), 0), nil},
		{"no alignment", 12, none, readOf(0), rpcrdma.ErrPadding},
		{"ends behind its direction", 16, none, u32s(5, 1), rpcrdma.ErrRPC},
		{"denied", 16, none, u32s(5, 1, 1, 1, 5), nil},
		{"verifier too long", 16, none, u32s(5, 1, 0, 1, 401), rpcrdma.ErrRPC},
		{"ends in the verifier", 16, none, u32s(5, 1, 0, 1), rpcrdma.ErrRPC},
		{"ends before its status", 16, none, u32s(5, 1, 0, 0, 0), rpcrdma.ErrRPC},
		{"not executed", 16, none, u32s(5, 1, 0, 0, 0, 1), nil},
		{"no results", 16, none, rpcReply(5), nil},
		{"data missing", 16, none, readOf(40), rpcrdma.ErrArgs},
		{"a program of unknown shape", 16, anyCall, append(rpcReply(5), u32s(1)...), rpcrdma.ErrPadding},
		{"the same without results", 16, anyCall, rpcReply(5), nil},
		{"GSS protects the body", 16, func(c *rpcrdma.Call) { c.Protected, c.Sink = true, 0 }, readOf(0), rpcrdma.ErrPadding},
	} {
		q, c := readAsker(t, rpcrdma.RequesterConfig{}, tt.call)
		h := rpcrdma.Header{XID: 5, Vers: 1, Credit: 9, Type: rpcrdma.MsgTypeMsgP, Align: tt.align, Thresh: 4}
		got, why := q.Receive(append(h.Append(nil), tt.msg...))
		if got != c || !errors.Is(c.Result.Err, tt.err) || tt.err == nil && c.Result.Err != nil || q.InFlight() != 0 {
			t.Errorf("%s: %v, %v", tt.name, why, c.Result.Err)
		}
	}
}
