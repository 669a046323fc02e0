package rpcrdma_test

import (
	"bytes"
	"errors"
	"testing"

	"github.com/stag-rdma/stag/chunks"
	"github.com/stag-rdma/stag/rpcrdma"
)

// received returns a responder that has dispatched the call in hex.
func received(t *testing.T, cfg rpcrdma.ResponderConfig, hex string) (*rpcrdma.Responder, *rpcrdma.Inbound) {
	t.Helper()
	r, in := newResponder(cfg), new(rpcrdma.Inbound)
	if v := r.Receive(unhex(t, hex), in); v != rpcrdma.Dispatch {
		t.Fatal(v, in.Err)
	}
	post(r)
	return r, in
}

// TestReplyVectors makes the replies of the vectors, octet for octet.
func TestReplyVectors(t *testing.T) {
	data := ramp(5000, 1)
	t.Run("6.2 NULL", func(t *testing.T) {
		r, in := received(t, rpcrdma.ResponderConfig{Credits: 16}, vectors.null)
		var out rpcrdma.Reply
		r.Reply([]byte("x"), in, &chunks.Message{Head: rpcReply(vectorXID)}, &out)
		if want := unhex(t, vectors.nullReply); out.Form != rpcrdma.FormShort || out.Err != nil || !bytes.Equal(out.Head[1:], want) {
			t.Errorf("%v, %v\n got %x\nwant %x", out.Form, out.Err, out.Head[1:], want)
		}
	})
	leave := rpcrdma.ResponderConfig{RemoteInvalidate: true} // of two handles the first is named
	t.Run("6.5 READ", func(t *testing.T) {
		r, in := received(t, leave, vectors.read)
		var out rpcrdma.Reply
		body := unhex(t, vectors.readReply)[92:]
		r.Reply(nil, in, &chunks.Message{
			Head: rpcReply(vectorXID), Body: body, Items: []chunks.Item{{Pos: 44, Data: data}},
		}, &out)
		if want := unhex(t, vectors.readReply); out.Form != rpcrdma.FormChunked || !bytes.Equal(out.Head, want) {
			t.Errorf("%v\n got %x\nwant %x", out.Form, out.Head, want)
		}
		if len(out.Writes) != 2 || &out.Writes[0].Data[0] != &data[0] || out.Writes[0].Offset != 0x30000 ||
			out.Writes[1].Handle != 0xb1b1b1b2 || !bytes.Equal(out.Writes[1].Data, data[4096:]) {
			t.Errorf("writes = %v", out.Writes)
		}
		if !out.HasInvalidate || out.Invalidate != 0xb1b1b1b1 {
			t.Errorf("invalidates %v %v", out.HasInvalidate, out.Invalidate)
		}
	})
	t.Run("6.6 STALE", func(t *testing.T) {
		r, in := received(t, rpcrdma.ResponderConfig{}, vectors.read)
		var out rpcrdma.Reply
		r.Reply(nil, in, &chunks.Message{Head: rpcReply(vectorXID), Body: unhex(t, "00000046 00000000")}, &out)
		if want := unhex(t, vectors.readStale); out.Form != rpcrdma.FormShort || len(out.Writes) != 0 || !bytes.Equal(out.Head, want) {
			t.Errorf("%v, %v\n got %x\nwant %x", out.Form, out.Writes, out.Head, want)
		}
	})
	t.Run("6.8 long reply", func(t *testing.T) {
		r, in := newResponder(leave), new(rpcrdma.Inbound)
		if v := r.Receive(unhex(t, vectors.longCall), in); v != rpcrdma.Pull {
			t.Fatal(v, in.Err)
		}
		buf := append(rpcCall(vectorXID, 16), make([]byte, 1260)...)
		if v := r.Pulled(in, buf); v != rpcrdma.Dispatch {
			t.Fatal(v, in.Err)
		}
		post(r)
		var out rpcrdma.Reply
		r.Reply(nil, in, &chunks.Message{Head: rpcReply(vectorXID), Body: make([]byte, 20460)}, &out)
		if want := unhex(t, vectors.longReply); out.Form != rpcrdma.FormLong || !bytes.Equal(out.Head, want) {
			t.Errorf("%v\n got %x\nwant %x", out.Form, out.Head, want)
		}
		if len(out.Writes) != 2 || out.Writes[1].Offset != 0x60000+24 || len(out.Writes[1].Data) != 20460 {
			t.Errorf("writes = %v", len(out.Writes))
		}
		if !out.HasInvalidate || out.Invalidate != 0xc1c1c1c1 {
			t.Errorf("invalidates %v %v", out.HasInvalidate, out.Invalidate)
		}
	})
}

// offer is what a call offers: write chunks and a reply chunk, by their rooms.
type offer struct {
	write [][]uint32
	reply []uint32 // nil: none
}

func TestReplyForms(t *testing.T) {
	for _, c := range []struct {
		name  string
		offer offer
		body  int   // octets besides the RPC header of 24
		items []int // in order, at the end of body
		form  rpcrdma.Form
		sent  int      // octets of the Send
		write []uint32 // lengths returned, chunk after chunk
		reply []uint32
	}{
		{"inline, exactly", offer{}, 1024 - 52, nil, rpcrdma.FormShort, 1024, nil, nil},
		{"inline, one word too long", offer{}, 1024 - 48, nil, rpcrdma.FormError, 20, nil, nil},
		{"item inline without a chunk", offer{}, 4, []int{5}, rpcrdma.FormShort, 28 + 24 + 4 + 8, nil, nil},
		{"item too long without a chunk", offer{}, 4, []int{1000}, rpcrdma.FormError, 20, nil, nil},
		{"item by chunk", offer{write: [][]uint32{{3, 10}}}, 4, []int{5}, rpcrdma.FormChunked, 28 + 40 + 24 + 4, []uint32{3, 2}, nil},
		{"pad segment stays empty", offer{write: [][]uint32{{5, 4}}}, 4, []int{5}, rpcrdma.FormChunked, 28 + 40 + 24 + 4, []uint32{5, 0}, nil},
		{"chunk exactly", offer{write: [][]uint32{{5}}}, 4, []int{5}, rpcrdma.FormChunked, 28 + 24 + 24 + 4, []uint32{5}, nil},
		{"chunk one octet too small", offer{write: [][]uint32{{4}}}, 4, []int{5}, rpcrdma.FormError, 20, nil, nil},
		{"item of nothing", offer{write: [][]uint32{{4}}}, 4, []int{0}, rpcrdma.FormChunked, 28 + 24 + 24 + 4, []uint32{0}, nil},
		{"empty chunk: inline", offer{write: [][]uint32{{}}}, 4, []int{5}, rpcrdma.FormShort, 28 + 8 + 24 + 4 + 8, nil, nil},
		{"empty chunk, then a chunk", offer{write: [][]uint32{{}, {9}}}, 4, []int{5, 6}, rpcrdma.FormChunked, 28 + 8 + 24 + 24 + 4 + 8, []uint32{6}, nil},
		{"two chunks, one item", offer{write: [][]uint32{{9}, {9}}}, 4, []int{5}, rpcrdma.FormChunked, 28 + 48 + 24 + 4, []uint32{5, 0}, nil},
		{"one chunk, two items", offer{write: [][]uint32{{9}}}, 4, []int{5, 6}, rpcrdma.FormChunked, 28 + 24 + 24 + 4 + 8, []uint32{5}, nil},
		{"chunk offered, no item", offer{write: [][]uint32{{9, 9}}}, 4, nil, rpcrdma.FormShort, 28 + 40 + 24 + 4, []uint32{0, 0}, nil},
		{"fits although a reply chunk is offered", offer{reply: []uint32{5000}}, 100, nil, rpcrdma.FormShort, 28 + 20 + 124, nil, []uint32{0}},
		{"reply chunk", offer{reply: []uint32{124, 904, 4000}}, 1500, nil, rpcrdma.FormLong, 28 + 52, nil, []uint32{124, 904, 496}},
		{"reply chunk exactly", offer{reply: []uint32{1524}}, 1500, nil, rpcrdma.FormLong, 28 + 20, nil, []uint32{1524}},
		{"reply chunk one octet too small", offer{reply: []uint32{1523}}, 1500, nil, rpcrdma.FormError, 20, nil, nil},
		{"reply chunk of nothing", offer{reply: []uint32{}}, 1500, nil, rpcrdma.FormError, 20, nil, nil},
		{"item and its pad in the reply chunk", offer{reply: []uint32{2000}}, 4, []int{1001}, rpcrdma.FormLong, 28 + 20, nil, []uint32{24 + 4 + 1004}},
		{"reduced stream in the reply chunk", offer{[][]uint32{{4000}}, []uint32{2000}}, 1400, []int{3999}, rpcrdma.FormLong, 28 + 24 + 20, []uint32{3999}, []uint32{1424}},
		{"chunks too many to be returned", offer{write: [][]uint32{make([]uint32, 70)}}, 4, nil, rpcrdma.FormError, 20, nil, nil},
		{"the same beside a reply chunk", offer{[][]uint32{make([]uint32, 70)}, []uint32{2000}}, 4, nil, rpcrdma.FormError, 20, nil, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := newMemory(t)
			h := rpcrdma.Header{XID: 9, Vers: 1, Credit: 1}
			for _, w := range c.offer.write {
				h.Write = append(h.Write, offerRooms(m, w))
			}
			if h.HasReply = c.offer.reply != nil; h.HasReply {
				h.Reply = offerRooms(m, c.offer.reply)
			}
			r := newResponder(rpcrdma.ResponderConfig{})
			var in rpcrdma.Inbound
			if v := r.Receive(append(h.Append(nil), rpcCall(9, 0)...), &in); v != rpcrdma.Dispatch {
				t.Fatal(v, in.Err)
			}
			post(r)
			msg := chunks.Message{Head: rpcReply(9), Body: ramp(c.body, 1)}
			pos := 24 + c.body
			for i, n := range c.items {
				msg.Items = append(msg.Items, chunks.Item{Pos: pos, Data: ramp(n, byte(40*i))})
				pos += (n + 3) &^ 3
			}
			var out rpcrdma.Reply
			r.Reply(nil, &in, &msg, &out)
			if out.Form != c.form || len(out.Head) != c.sent || (out.Err != nil) != (c.form == rpcrdma.FormError) {
				t.Fatalf("%v of %d octets, %v; want %v of %d", out.Form, len(out.Head), out.Err, c.form, c.sent)
			}
			written := m.write(out.Writes)
			if c.form == rpcrdma.FormError {
				if !errors.Is(out.Err, rpcrdma.ErrNoFit) || written != 0 || out.HasInvalidate {
					t.Errorf("refused with %v, but %d octets written", out.Err, written)
				}
				return
			}
			var got rpcrdma.Header
			if _, err := got.Decode(out.Head, nil); err != nil {
				t.Fatal(err)
			}
			var lengths []uint32
			for _, w := range got.Write {
				lengths = append(lengths, roomsOf(w)...)
			}
			sum := got.Reply.Room()
			for _, w := range got.Write {
				sum += w.Room()
			}
			if !equal(lengths, c.write) || !equal(roomsOf(got.Reply), c.reply) || sum != uint64(written) || len(got.Read) > 0 {
				t.Errorf("returned %v and %v, want %v and %v; %d octets written", lengths, roomsOf(got.Reply), c.write, c.reply, written)
			}
		})
	}
}

func offerRooms(m *memory, rooms []uint32) (c chunks.WriteChunk) {
	for _, n := range rooms {
		c = m.offer(c, make([]byte, n), 1)
	}
	return c
}

func roomsOf(c chunks.WriteChunk) (n []uint32) {
	for i := range c {
		n = append(n, c[i].Length)
	}
	return n
}

func equal(a, b []uint32) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}

func TestReplyBadMessage(t *testing.T) {
	r, in := received(t, rpcrdma.ResponderConfig{}, vectors.read)
	var out rpcrdma.Reply
	r.Reply(nil, in, &chunks.Message{Head: rpcReply(vectorXID), Items: []chunks.Item{{Pos: 2}}}, &out)
	if out.Form != rpcrdma.FormError || !errors.Is(out.Err, chunks.ErrItem) || r.Credits().Serving() != 0 {
		t.Errorf("%v, %v", out.Form, out.Err)
	}
}

// TestInvalidate: the first handle of a call, if leave was given.
func TestInvalidate(t *testing.T) {
	a, b := segment(0xa1, 100, 0), segment(0xb1, 100, 0)
	read := func(pos uint32, s chunks.Segment) []chunks.ReadSegment {
		return []chunks.ReadSegment{{Position: pos, Segment: s}}
	}
	for _, c := range []struct {
		name  string
		lists chunks.Lists
		want  bool
	}{
		{"no chunks", chunks.Lists{}, false},
		{"one write chunk", chunks.Lists{Write: []chunks.WriteChunk{{a}}}, true},
		{"two segments, one handle", chunks.Lists{Write: []chunks.WriteChunk{{a, a}}}, true},
		{"two handles", chunks.Lists{Write: []chunks.WriteChunk{{a, b}}}, true},
		{"three, the first twice", chunks.Lists{Write: []chunks.WriteChunk{{a, b}, {a}}}, true},
		{"reply chunk", chunks.Lists{HasReply: true, Reply: chunks.WriteChunk{a}}, true},
		{"reply chunk of two handles", chunks.Lists{HasReply: true, Reply: chunks.WriteChunk{a, b}}, true},
		{"write and reply chunk share", chunks.Lists{Write: []chunks.WriteChunk{{a}}, HasReply: true, Reply: chunks.WriteChunk{a}}, true},
		{"write and reply chunk differ", chunks.Lists{Write: []chunks.WriteChunk{{a}}, HasReply: true, Reply: chunks.WriteChunk{b}}, true},
		{"read chunk", chunks.Lists{Read: read(68, a)}, true},
		{"read and reply chunk differ", chunks.Lists{Read: read(68, a), HasReply: true, Reply: chunks.WriteChunk{b}}, true},
		{"empty chunks", chunks.Lists{Write: []chunks.WriteChunk{{}}, HasReply: true}, false},
		{"an empty chunk and two handles", chunks.Lists{Write: []chunks.WriteChunk{{}, {a}}, HasReply: true, Reply: chunks.WriteChunk{b}}, true},
	} {
		for _, allowed := range []bool{false, true} {
			r := newResponder(rpcrdma.ResponderConfig{RemoteInvalidate: allowed})
			h := rpcrdma.Header{XID: 9, Vers: 1, Credit: 1, Lists: c.lists}
			send := append(h.Append(nil), callWith(7, nil, writeArgs(100)...)[28:]...)
			var in rpcrdma.Inbound
			if v := r.Receive(send, &in); v == rpcrdma.Pull {
				buf := make([]byte, in.Layout.Total)
				in.Layout.Place(buf, in.Payload)
				r.Pulled(&in, buf)
			}
			post(r)
			var out rpcrdma.Reply
			r.Reply(nil, &in, &chunks.Message{Head: rpcReply(9)}, &out)
			if out.HasInvalidate != (c.want && allowed) || out.HasInvalidate && out.Invalidate != 0xa1 {
				t.Errorf("%s, allowed %v: %v %v", c.name, allowed, out.HasInvalidate, out.Invalidate)
			}
		}
	}
}
