package rpcrdma_test

import (
	"bytes"
	"errors"
	"testing"

	"github.com/stag-rdma/stag/chunks"
	"github.com/stag-rdma/stag/rpcrdma"
)

// TestBackwardData: the octets, and that nothing else is taken for them.
func TestBackwardData(t *testing.T) {
	priv := rpcrdma.PrivateData{SendSize: 4096, RecvSize: 4096}.Append(nil)
	block := rpcrdma.BackwardData{Credits: 0x1234}.Append(nil)
	if want := unhex(t, "62776431 01 00 1234"); !bytes.Equal(block, want) {
		t.Errorf("%x, want %x", block, want)
	}
	both := append(bytes.Clone(priv), block...)
	if d, ok := rpcrdma.ParseBackwardData(append(both, 1, 2, 3)); !ok || d.Credits != 0x1234 {
		t.Errorf("%+v, %v", d, ok)
	}
	if p, ok := rpcrdma.ParsePrivateData(both); !ok || p.RecvSize != 4096 {
		t.Errorf("the block hides the private data: %+v, %v", p, ok)
	}
	for n := range both {
		if _, ok := rpcrdma.ParseBackwardData(both[:n]); ok {
			t.Errorf("%d octets are enough", n)
		}
	}
	for _, at := range []int{0, 8, 12} { // identifiers, version
		bad := bytes.Clone(both)
		bad[at] ^= 1
		if _, ok := rpcrdma.ParseBackwardData(bad); ok {
			t.Errorf("octet %d does not matter", at)
		}
	}
	if _, ok := rpcrdma.ParseBackwardData(rpcrdma.BackwardData{}.Append(bytes.Clone(priv))); ok {
		t.Error("no credits are enough")
	}
}

// TestNoChunks: a direction without chunks plans none and refuses calls that have some
// (RFC 8167 Section 5.3).
func TestNoChunks(t *testing.T) {
	q := made(rpcrdma.NewRequester(rpcrdma.RequesterConfig{NoChunks: true, Binding: chunks.NFSv3}))
	body := make([]byte, 1024-rpcrdma.MinHeaderSize-40)
	c := &rpcrdma.Call{XID: 1, Message: chunks.Message{Head: rpcCall(1, 7), Body: body}, MaxReply: 1 << 20, Sink: 1 << 16}
	if err := q.Plan(c); err != nil || c.Plan != (rpcrdma.Plan{}) {
		t.Errorf("%v, %+v", err, c.Plan)
	}
	c.Message.Body = make([]byte, len(body)+4)
	if err := q.Plan(c); !errors.Is(err, rpcrdma.ErrInline) {
		t.Errorf("one word too long: %v", err)
	}
	seg := chunks.Segment{Handle: 1, Length: 8}
	for name, l := range map[string]chunks.Lists{
		"read list":   {Read: []chunks.ReadSegment{{Position: 40, Segment: seg}}},
		"write list":  {Write: []chunks.WriteChunk{{seg}}},
		"reply chunk": {HasReply: true, Reply: chunks.WriteChunk{seg}},
		"nothing":     {},
	} {
		r := newResponder(rpcrdma.ResponderConfig{NoChunks: true})
		h := rpcrdma.Header{XID: 5, Vers: rpcrdma.Version, Credit: 3, Lists: l}
		var in rpcrdma.Inbound
		v := r.Receive(append(h.Append(nil), rpcCall(5, 0)...), &in)
		if name == "nothing" {
			if v != rpcrdma.Dispatch {
				t.Errorf("%s: %v, %v", name, v, in.Err)
			}
			continue
		}
		if v != rpcrdma.Answer || !errors.Is(in.Err, rpcrdma.ErrNoChunks) {
			t.Errorf("%s: %v, %v", name, v, in.Err)
			continue
		}
		post(r)
		if got, want := r.AppendAnswer(nil, &in), unhex(t, "00000005 00000001 00000003 00000004 00000002"); !bytes.Equal(got, want) {
			t.Errorf("%s: %x, want %x", name, got, want)
		}
	}
}
