package rpcrdma_test

import (
	"bytes"
	"errors"
	"testing"

	"github.com/stag-rdma/stag/chunks"
	"github.com/stag-rdma/stag/rpcrdma"
)

// exposing is a server of profile rfc5666 whose client can read.
func exposing(cfg rpcrdma.ResponderConfig) *rpcrdma.Responder {
	cfg.Profile, cfg.Reads = rpcrdma.RFC5666, true
	return newResponder(cfg)
}

// answerRead takes a call of a procedure and answers it with a result of n octets, which
// begin at 44 as those of READ do.
func answerRead(t *testing.T, r *rpcrdma.Responder, xid, proc uint32, n int) (*rpcrdma.Inbound, *rpcrdma.Reply) {
	t.Helper()
	in, out := new(rpcrdma.Inbound), new(rpcrdma.Reply)
	h := rpcrdma.Header{XID: xid, Vers: 1, Credit: 9}
	if v := r.Receive(append(h.Append(nil), rpcCall(xid, proc)...), in); v != rpcrdma.Dispatch {
		t.Fatalf("%v, %v", v, in.Err)
	}
	post(r)
	m := chunks.Message{
		Head: rpcReply(xid), Body: u32s(0, 0, uint32(n), 1, uint32(n)),
		Items: []chunks.Item{{Pos: 44, Data: ramp(n, 1)}},
	}
	r.Reply(nil, in, &m, out)
	return in, out
}

// TestExpose: which parts of a reply that fits nowhere are exposed: a large eligible result
// by a chunk of its own, else the whole reply (RFC 5666 Section 3.8 and 5.1).
func TestExpose(t *testing.T) {
	for _, tt := range []struct {
		name string
		cfg  rpcrdma.ResponderConfig
		proc uint32
		n    int
		want []rpcrdma.Exposure // without Data
		form rpcrdma.Form
	}{
		{"fits inline", rpcrdma.ResponderConfig{}, 6, 952, nil, rpcrdma.FormShort},
		{"one octet too long, small for a chunk", rpcrdma.ResponderConfig{}, 6, 953, []rpcrdma.Exposure{{0, 44 + 956, nil}}, rpcrdma.FormLong},
		{"large enough for a chunk", rpcrdma.ResponderConfig{}, 6, 1024, []rpcrdma.Exposure{{44, 1024, nil}}, rpcrdma.FormChunked},
		{"just below", rpcrdma.ResponderConfig{ExposeMin: 1025}, 6, 1024, []rpcrdma.Exposure{{0, 44 + 1024, nil}}, rpcrdma.FormLong},
		{"not eligible", rpcrdma.ResponderConfig{}, 16, 2000, []rpcrdma.Exposure{{0, 44 + 2000, nil}}, rpcrdma.FormLong},
		{"as much as may be", rpcrdma.ResponderConfig{MaxExposedOctets: 2000}, 6, 2000, []rpcrdma.Exposure{{44, 2000, nil}}, rpcrdma.FormChunked},
		{"more than may be", rpcrdma.ResponderConfig{MaxExposedOctets: 2000}, 6, 2001, nil, rpcrdma.FormError},
	} {
		_, out := answerRead(t, exposing(tt.cfg), 7, tt.proc, tt.n)
		if out.Form != tt.form || len(out.Expose) != len(tt.want) || (tt.form == rpcrdma.FormError) != errors.Is(out.Err, rpcrdma.ErrNoFit) {
			t.Errorf("%s: %+v", tt.name, out)
			continue
		}
		for i, x := range tt.want {
			if got := out.Expose[i]; got.Pos != x.Pos || got.Octets != x.Octets || got.Pos > 0 && len(got.Data) != x.Octets {
				t.Errorf("%s: exposed %d octets at %d", tt.name, got.Octets, got.Pos)
			}
			if x.Pos == 0 && len(out.AppendStream(nil)) != x.Octets {
				t.Errorf("%s: a stream of %d octets", tt.name, len(out.AppendStream(nil)))
			}
		}
	}
}

// TestExposeBounds: so many replies, and so many octets, are exposed at a time; an
// RDMA_DONE makes room, whichever reply it is for.
func TestExposeBounds(t *testing.T) {
	for _, cfg := range []rpcrdma.ResponderConfig{{MaxExposed: 2}, {MaxExposedOctets: 3000}} {
		r := exposing(cfg)
		var outs []*rpcrdma.Reply
		for xid := range uint32(3) {
			in, out := answerRead(t, r, xid, 6, 1500)
			if ok := r.Expose(out); ok != (xid < 2) {
				t.Fatalf("%+v: reply %d exposed: %v", cfg, xid, ok)
			}
			if outs = append(outs, out); xid == 2 {
				continue
			}
			var h rpcrdma.Header
			_, err := h.Decode(r.AppendExposed(nil, in, out, []chunks.Segment{{Handle: 9, Length: 1500, Offset: 3}}), nil)
			if err != nil || h.XID != xid || h.Type != rpcrdma.MsgTypeMsg || len(h.Read) != 1 || h.Read[0].Position != 44 || h.Read[0].Handle != 9 {
				t.Errorf("%+v, %v", h, err)
			}
		}
		done := func(xid uint32) *rpcrdma.Reply {
			var in rpcrdma.Inbound
			h := rpcrdma.Header{XID: xid, Vers: 1, Type: rpcrdma.MsgTypeDone}
			if v := r.Receive(h.Append(nil), &in); (v == rpcrdma.Done) != (in.Done != nil) || v != rpcrdma.Done && v != rpcrdma.Drop {
				t.Errorf("RDMA_DONE %d: %v", xid, v)
			}
			post(r)
			return in.Done
		}
		if list, octets := r.Exposed(); len(list) != 2 || octets != 3000 {
			t.Errorf("%d replies of %d octets", len(list), octets)
		}
		if done(7) != nil || done(1) != outs[1] || done(1) != nil {
			t.Error("RDMA_DONE freed another reply")
		}
		if list, octets := r.Exposed(); len(list) != 1 || list[0] != outs[0] || octets != 1500 {
			t.Errorf("%d replies of %d octets", len(list), octets)
		}
		if !r.Expose(outs[2]) || done(0) != outs[0] || done(2) != outs[2] {
			t.Error("no room behind an RDMA_DONE")
		}
	}
}

// TestExposeFirst: one reply may always be exposed, and one that is given up is an
// ERR_CHUNK.
func TestExposeFirst(t *testing.T) {
	r := exposing(rpcrdma.ResponderConfig{MaxExposed: 1})
	if _, out := answerRead(t, r, 1, 6, 1500); !r.Expose(out) {
		t.Fatal("the first one is withheld")
	}
	in, out := answerRead(t, r, 2, 6, 1500)
	if r.Expose(out) {
		t.Fatal("a second one")
	}
	r.Refuse(nil, in, out)
	var h rpcrdma.Header
	if _, err := h.Decode(out.Head, nil); err != nil || h.Type != rpcrdma.MsgTypeError || h.Err != rpcrdma.ErrChunk || h.XID != 2 ||
		out.Form != rpcrdma.FormError || !errors.Is(out.Err, rpcrdma.ErrNoFit) || len(out.Expose) != 0 || !bytes.Equal(out.Head[8:12], u32s(h.Credit)) || h.Credit == 0 {
		t.Errorf("%+v, %v, %+v", h, err, out)
	}
}
