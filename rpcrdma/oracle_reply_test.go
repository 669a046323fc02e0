package rpcrdma_test

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"github.com/stag-rdma/stag/chunks"
	"github.com/stag-rdma/stag/rpcrdma"
	"github.com/stag-rdma/stag/xdr"
)

// oRoom offers a write chunk of n octets or more in random segments: a pad segment of
// four octets as Linux sends, segments of no octets, or no segment at all.
func oRoom(rng *rand.Rand, mem oMemory, n int) (c []oSeg) {
	for room := 0; room < n; {
		k := rng.IntN(n - room + 8)
		c = append(c, mem.add(bytes.Repeat([]byte{0xa5}, k)))
		room += k
	}
	if rng.IntN(4) == 0 {
		c = append(c, mem.add(bytes.Repeat([]byte{0xa5}, 4)))
	}
	return c
}

// oOffer gives a call a write list and a reply chunk.
func oOffer(rng *rand.Rand, h *oHeader, mem oMemory) {
	for range rng.IntN(4) {
		var c []oSeg
		if rng.IntN(5) > 0 {
			c = oRoom(rng, mem, rng.IntN(1500))
		}
		h.write = append(h.write, c)
	}
	if h.hasReply = rng.IntN(2) == 0; h.hasReply {
		h.reply = oRoom(rng, mem, rng.IntN(3000))
	}
}

func oLen(c []oSeg) (n int) {
	for _, s := range c {
		n += int(s.length)
	}
	return n
}

// oWhere says how a reply must leave, in the words of RFC 8166 Section 3.5 and Section
// 4.3, and RFC 5666 Section 3.4. byWrite are the items in write chunks.
func oWhere(r *rpcrdma.Responder, h *oHeader, msg []byte, items []oItem) (how string, byWrite map[int]bool) {
	cfg := r.Config()
	byWrite = map[int]bool{}
	left, over := len(msg), false
	for i, it := range items {
		switch {
		case i >= len(h.write) || len(h.write[i]) == 0:
		case oLen(h.write[i]) < len(it.data):
			over = true
		default:
			byWrite[i] = true
			left -= (len(it.data) + 3) / 4 * 4
		}
	}
	hdr := 28
	for _, c := range h.write {
		hdr += 8 + 16*len(c)
	}
	if h.hasReply {
		hdr += 4 + 16*len(h.reply)
	}
	fits, room := hdr+left <= cfg.SendSize, h.hasReply && hdr <= cfg.SendSize && left <= oLen(h.reply)
	switch {
	case !over && room && (cfg.PreferReplyChunk || !fits):
		return "reply chunk", byWrite
	case !over && fits:
		return "inline", byWrite
	case cfg.Reads && hdr+24*(len(items)+1) <= cfg.SendSize:
		return "read", byWrite
	case cfg.Reads:
		return "any", byWrite // the header may or may not fit: only octets are compared
	}
	return "ERR_CHUNK", byWrite
}

// oReply has a random reply formed and brings it together again.
func oReply(t *testing.T, rng *rand.Rand, r *rpcrdma.Responder, h *oHeader, mem oMemory, in *rpcrdma.Inbound, out *rpcrdma.Reply, seen map[string]int) {
	t.Helper()
	head := xdr.AppendReply(nil, &xdr.ReplyHeader{XID: h.xid})
	want, items := oMessage(rng, head, 2500)
	m := chunks.Message{Head: want[:24], Body: want[24:], Whole: true}
	for _, it := range items {
		m.Items = append(m.Items, chunks.Item{Pos: it.pos, Data: want[it.pos:][:len(it.data)]})
	}
	how, byWrite := oWhere(r, h, want, items)
	r.Reply(nil, in, &m, out)
	if len(out.Expose) > 0 {
		expose(t, r, in, out, mem)
	}
	for _, w := range out.Writes {
		copy(mem.at(uint64(w.Handle), w.Offset, uint64(len(w.Data))), w.Data)
	}
	send := append(out.Head, out.Body...)
	if len(send) > r.Config().SendSize {
		t.Fatalf("a Send of %d octets", len(send))
	}
	if out.Form == rpcrdma.FormError {
		if seen["ERR_CHUNK"]++; how != "ERR_CHUNK" && how != "any" {
			t.Fatalf("ERR_CHUNK, the oracle says %s: %+v", how, h)
		}
		return
	}
	g := oParse(send)
	switch got := oHow(&g); {
	case how == "any" || got == how || how == "read" && (got == "read chunks" || got == "read by position zero" || got == "position zero and read chunks"):
		if seen[got]++; got == "reply chunk" && len(byWrite) > 0 {
			seen["reply chunk and write chunks"]++
		}
	default:
		t.Fatalf("by %s, the oracle says %s: %+v", got, how, h)
	}
	if len(byWrite) > 1 {
		seen["several write chunks used"]++
	}
	if got := oTogether(t, h, &g, mem, want, items, byWrite); !bytes.Equal(got, want) {
		t.Fatalf("%s: %+v\n got %x\nwant %x", how, g, got, want)
	}
}

// oHow names what carries a reply's stream.
func oHow(g *oHeader) string {
	switch {
	case len(g.read) > 0 && g.proc == 0:
		return "read chunks"
	case len(g.read) > 0 && g.read[len(g.read)-1].pos > 0:
		return "position zero and read chunks"
	case len(g.read) > 0:
		return "read by position zero"
	case g.proc == 1:
		return "reply chunk"
	}
	return "inline"
}

// expose registers what a reply exposes, in the memory both sides share here.
func expose(t *testing.T, r *rpcrdma.Responder, in *rpcrdma.Inbound, out *rpcrdma.Reply, mem oMemory) {
	t.Helper()
	if !r.Expose(out) {
		t.Fatal("the first reply is not admitted")
	}
	post(r)
	var segs []chunks.Segment
	for i := range out.Expose {
		data := out.Expose[i].Data
		if data == nil {
			data = out.AppendStream(nil)
		}
		if len(data) != out.Expose[i].Octets {
			t.Fatalf("%d octets announced, %d exposed", out.Expose[i].Octets, len(data))
		}
		s := mem.add(data)
		segs = append(segs, chunks.Segment{Handle: chunks.Handle(s.handle), Length: uint32(s.length), Offset: s.off})
	}
	r.AppendExposed(nil, in, out, segs)
}

// oTogether brings a reply together: the stream from where it is, the items from write
// chunks put back, read chunks inserted.
func oTogether(t *testing.T, h, g *oHeader, mem oMemory, want []byte, items []oItem, byWrite map[int]bool) []byte {
	t.Helper()
	if len(g.write) != len(h.write) || g.hasReply != h.hasReply {
		t.Fatalf("%d write chunks and a reply chunk %v came back, %d and %v were offered", len(g.write), g.hasReply, len(h.write), h.hasReply)
	}
	stream := *g
	if g.proc == 1 && len(g.read) == 0 {
		stream.proc, stream.inline = 0, oTake(t, h.reply, g.reply, mem)
	} else if h.hasReply && oLen(g.reply) != 0 {
		t.Fatalf("the reply chunk was used: %+v", g)
	}
	// What write chunks carry is one more chunk at its position, for the walk.
	i := 0
	var read []oRead
	for k, it := range items {
		for ; i < len(stream.read) && stream.read[i].pos <= uint64(it.pos); i++ {
			read = append(read, stream.read[i])
		}
		if k >= len(g.write) {
			continue
		}
		data := oTake(t, h.write[k], g.write[k], mem)
		switch {
		case byWrite[k] && len(data) != len(it.data) || !byWrite[k] && len(data) > 0:
			t.Fatalf("item %d of %d octets: %d in its write chunk", k, len(it.data), len(data))
		case byWrite[k]:
			s := mem.add(data)
			read = append(read, oRead{uint64(it.pos), s.handle, s.length, s.off})
		}
	}
	stream.read = append(read, stream.read[i:]...)
	for k := len(items); k < len(g.write); k++ {
		if n := len(oTake(t, h.write[k], g.write[k], mem)); n > 0 {
			t.Fatalf("%d octets in a chunk without an item", n)
		}
	}
	msg, at, lens, ok := oRebuild(&stream, mem)
	if !ok || !oCounts(msg, at, lens, 24) {
		t.Fatalf("illegal: %+v", g)
	}
	return msg
}

// oTake returns the octets in a chunk that came back, after what RFC 8166 Section 3.4.6
// says of it: the same segments, filled in order; nothing is touched beyond.
func oTake(t *testing.T, offered, got []oSeg, mem oMemory) (data []byte) {
	t.Helper()
	if len(offered) != len(got) {
		t.Fatalf("%d segments of %d came back", len(got), len(offered))
	}
	short := false
	for i, s := range got {
		o := offered[i]
		if s.handle != o.handle || s.off != o.off || s.length > o.length || short && s.length > 0 {
			t.Fatalf("segment %d came back as %+v, offered as %+v", i, s, o)
		}
		short = short || s.length < o.length
		all := mem.at(o.handle, o.off, o.length)
		data = append(data, all[:s.length]...)
		if rest := all[s.length:]; !bytes.Equal(rest, bytes.Repeat([]byte{0xa5}, len(rest))) {
			t.Fatalf("octets behind the %d that were returned are touched", s.length)
		}
	}
	return data
}
