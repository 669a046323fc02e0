package rpcrdma_test

import (
	"bytes"
	"testing"

	"github.com/stag-rdma/stag/chunks"
	"github.com/stag-rdma/stag/rpcrdma"
)

func seeds(f *testing.F) {
	for _, v := range wireTable {
		f.Add(unhex(f, v.hex))
	}
}

// FuzzHeader: what decodes encodes to the same octets; what does not says what
// to do.
func FuzzHeader(f *testing.F) {
	seeds(f)
	f.Fuzz(func(t *testing.T, b []byte) {
		var h rpcrdma.Header
		n, err := h.Decode(b, nil)
		if err != nil {
			action(t, err)
			return
		}
		if got := h.Append(nil); !bytes.Equal(got, b[:n]) || h.Size() != n {
			t.Errorf("encodes again as %x", got)
		}
	})
}

// FuzzResponder: any Send gets a verdict, any pulled octets too; answers are
// legal, no call is lost, what is pulled is bounded and lies in the buffer.
func FuzzResponder(f *testing.F) {
	for _, v := range wireTable {
		f.Add(unhex(f, v.hex), []byte{})
	}
	f.Add(unhex(f, vectors.longCall), rpcCall(vectorXID, 7))
	f.Fuzz(func(t *testing.T, send, pulled []byte) {
		fuzzResponder(t, rpcrdma.RFC8166, send, pulled)
		fuzzResponder(t, rpcrdma.RFC5666, bytes.Clone(send), pulled) // an RDMA_MSGP is closed up in place
	})
}

func fuzzResponder(t *testing.T, profile rpcrdma.Profile, send, pulled []byte) {
	lim := chunks.Limits{MaxOctets: 64 << 10}
	r := newResponder(rpcrdma.ResponderConfig{Profile: profile, Reads: true, Limits: lim})
	var in rpcrdma.Inbound
	v := r.Receive(send, &in)
	post(r)
	if v == rpcrdma.Pull {
		if in.Layout.Total > 64<<10 {
			t.Fatalf("%d octets to pull", in.Layout.Total)
		}
		buf := make([]byte, in.Layout.Total)
		copy(buf, pulled)
		in.Layout.Place(buf, in.Payload)
		for _, p := range in.Layout.Pulls {
			_ = buf[p.Dst : p.Dst+int(p.Length)]
		}
		v = r.Pulled(&in, buf)
	}
	var b []byte
	switch v {
	case rpcrdma.Answer:
		b = r.AppendAnswer(nil, &in)
	case rpcrdma.Dispatch:
		var out rpcrdma.Reply
		item := chunks.Item{Pos: 28, Data: make([]byte, 100)}
		r.Reply(nil, &in, &chunks.Message{Head: rpcReply(in.Header.XID), Body: make([]byte, 4), Items: []chunks.Item{item}}, &out)
		if len(out.Expose) > 0 {
			if !r.Expose(&out) {
				t.Error("the first reply is not admitted")
			}
			post(r)
			r.AppendExposed(nil, &in, &out, make([]chunks.Segment, len(out.Expose)))
		}
		b = out.Head
	}
	if r.Credits().Serving() != 0 || r.Credits().Check() != nil {
		t.Errorf("%d calls lost, %v", r.Credits().Serving(), r.Credits().Check())
	}
	var h rpcrdma.Header
	if v != rpcrdma.Drop {
		if _, err := h.Decode(b, &chunks.Limits{MaxOctets: 1 << 30}); err != nil || len(b) > rpcrdma.DefaultInline {
			t.Errorf("%v: answer of %d octets, %v", v, len(b), err)
		}
	}
}

// FuzzRequester: no Send makes a requester believe in octets that are not there.
func FuzzRequester(f *testing.F) {
	seeds(f)
	f.Fuzz(func(t *testing.T, send []byte) {
		fuzzRequester(t, rpcrdma.RFC8166, send)
		fuzzRequester(t, rpcrdma.RFC5666, bytes.Clone(send)) // an RDMA_MSGP is closed up in place
	})
}

func fuzzRequester(t *testing.T, profile rpcrdma.Profile, send []byte) {
	r := made(rpcrdma.NewRequester(rpcrdma.RequesterConfig{Profile: profile, Reads: true, MaxRead: 64 << 10, Binding: chunks.NFSv3}))
	c := &rpcrdma.Call{
		XID: vectorXID, Prog: 100003, Vers: 3, Proc: 6,
		Message: chunks.Message{Head: rpcCall(vectorXID, 6)}, Sink: 8192, MaxReply: 32768,
	}
	noErr(t, r.Plan(c))
	c.Memory.Sink = readChunk(4096, 4096)
	c.Memory.Reply = chunks.WriteChunk{segment(0xd1d1d1d1, 32768, 0x60000)}
	noErr(t, r.Begin(c))
	if _, _, err := r.AppendCall(nil, c); err != nil {
		t.Fatal(err)
	}
	got, why := r.Receive(send)
	if got == nil {
		if why == nil || r.InFlight() != 1 {
			t.Errorf("dropped because of %v, %d in flight", why, r.InFlight())
		}
		return
	}
	res := &got.Result
	if res.Read && res.Err == nil {
		if c.Layout.Total > 64<<10 {
			t.Fatalf("%d octets to read", c.Layout.Total)
		}
		buf := make([]byte, c.Layout.Total)
		c.Layout.Place(buf, c.Inline)
		_ = r.Pulled(c, buf)
	}
	if _, due := r.AppendDone(nil); due != res.Read {
		t.Errorf("read %v, an RDMA_DONE %v", res.Read, due)
	}
	if res.Long {
		_ = r.CheckReply(got, make([]byte, 32768))
	}
	if res.Err == nil && (res.ReplyLen > 32768 || res.Placed && res.ItemLen > 8192 || res.ItemPos > len(res.Results)) {
		t.Errorf("result %+v", res)
	}
	if r.InFlight() != 0 {
		t.Error("answered, but in flight")
	}
}

// FuzzPrivateData: what is found is what a peer could have said.
func FuzzPrivateData(f *testing.F) {
	f.Add(rpcrdma.PrivateData{true, 4096, 8192}.Append(nil))
	f.Add(rpcrdma.PrivateData{false, 1024, 262144}.Append([]byte("lead-in")))
	f.Fuzz(func(t *testing.T, b []byte) {
		p, ok := rpcrdma.ParsePrivateData(b)
		if q, ok2 := rpcrdma.ParsePrivateData(p.Append(nil)); q != p || !ok2 {
			t.Errorf("%+v, %v comes back as %+v", p, ok, q)
		}
		if !ok && p != (rpcrdma.PrivateData{false, 1024, 1024}) {
			t.Errorf("absent means %+v", p)
		}
	})
}
