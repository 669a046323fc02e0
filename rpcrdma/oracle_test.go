package rpcrdma_test

import (
	"bytes"
	"encoding/binary"
	"flag"
	"math/rand/v2"
	"testing"

	"github.com/stag-rdma/stag/rpcrdma"
	"github.com/stag-rdma/stag/xdr"
)

// messages is how many random messages the oracle sees: make test-long has 100000.
var messages = flag.Int("messages", 5000, "random messages for TestOracle")

// The oracle is a second, naive implementation of the chunk lists, from the text of RFC
// 8166 Section 3.4 and RFC 5666 Section 3.5, that shares no code with the packages.
type (
	oSeg    struct{ handle, length, off uint64 }
	oRead   struct{ pos, handle, length, off uint64 }
	oHeader struct {
		xid, vers, proc uint32
		read            []oRead
		write           [][]oSeg
		reply           []oSeg
		hasReply        bool
		inline          []byte
	}
)

// oWords takes words from the front of octets.
type oWords struct{ b []byte }

func (w *oWords) u32() uint32 {
	v := binary.BigEndian.Uint32(w.b)
	w.b = w.b[4:]
	return v
}

func (w *oWords) seg() oSeg {
	h, n := uint64(w.u32()), uint64(w.u32())
	return oSeg{h, n, uint64(w.u32())<<32 | uint64(w.u32())}
}

func (w *oWords) chunk() (c []oSeg) {
	for range w.u32() {
		c = append(c, w.seg())
	}
	return c
}

// oParse reads the header of an RDMA_MSG or RDMA_NOMSG that is well formed.
func oParse(b []byte) (h oHeader) {
	w := oWords{b}
	h.xid, h.vers = w.u32(), w.u32()
	w.u32()
	h.proc = w.u32()
	for w.u32() == 1 {
		pos := uint64(w.u32())
		s := w.seg()
		h.read = append(h.read, oRead{pos, s.handle, s.length, s.off})
	}
	for w.u32() == 1 {
		h.write = append(h.write, w.chunk())
	}
	if h.hasReply = w.u32() == 1; h.hasReply {
		h.reply = w.chunk()
	}
	h.inline = w.b
	return h
}

// oAppend writes a call header.
func oAppend(h *oHeader) (b []byte) {
	u32 := func(v uint64) { b = binary.BigEndian.AppendUint32(b, uint32(v)) }
	chunk := func(c []oSeg) {
		u32(uint64(len(c)))
		for _, s := range c {
			u32(s.handle)
			u32(s.length)
			u32(s.off >> 32)
			u32(s.off)
		}
	}
	for _, v := range []uint32{h.xid, 1, 9, h.proc} {
		u32(uint64(v))
	}
	for _, r := range h.read {
		u32(1)
		u32(r.pos)
		u32(r.handle)
		u32(r.length)
		u32(r.off >> 32)
		u32(r.off)
	}
	u32(0)
	for _, c := range h.write {
		u32(1)
		chunk(c)
	}
	u32(0)
	if h.hasReply {
		u32(1)
		chunk(h.reply)
	} else {
		u32(0)
	}
	return append(b, h.inline...)
}

// oMemory is the memory of one side: a run of octets per handle.
type oMemory map[uint64][]byte

func (m oMemory) add(b []byte) oSeg {
	h := uint64(len(m) + 1)
	m[h] = b
	return oSeg{h, uint64(len(b)), h << 40}
}

func (m oMemory) at(handle, off, n uint64) []byte { return m[handle][off-handle<<40:][:n] }

// oRebuild is the receiver's walk: "copy inline octets until the rebuilt stream reaches
// Position; insert the chunk's octets; insert pad". ok is false when the list is illegal.
func oRebuild(h *oHeader, mem oMemory) (msg []byte, at []int, lens []int, ok bool) {
	read, stream := h.read, h.inline
	if h.proc == 1 {
		stream = nil
		if len(read) == 0 || read[0].pos != 0 {
			return nil, nil, nil, false
		}
		for len(read) > 0 && read[0].pos == 0 {
			stream = append(stream, mem.at(read[0].handle, read[0].off, read[0].length)...)
			read = read[1:]
		}
	}
	for len(read) > 0 {
		pos := read[0].pos
		if pos == 0 || pos%4 != 0 || pos < uint64(len(msg)) || pos-uint64(len(msg)) > uint64(len(stream)) {
			return nil, nil, nil, false
		}
		n := int(pos) - len(msg)
		msg, stream = append(msg, stream[:n]...), stream[n:]
		for len(read) > 0 && read[0].pos == pos {
			msg = append(msg, mem.at(read[0].handle, read[0].off, read[0].length)...)
			read = read[1:]
		}
		at, lens = append(at, int(pos)), append(lens, len(msg)-int(pos))
		for len(msg)%4 != 0 {
			msg = append(msg, 0)
		}
	}
	return append(msg, stream...), at, lens, true
}

// oCounts compares the chunks with the count words before them.
func oCounts(msg []byte, at, lens []int, first int) bool {
	for i, pos := range at {
		if pos < first+4 {
			return false
		}
		n := int(binary.BigEndian.Uint32(msg[pos-4:]))
		if lens[i] != n && lens[i] != (n+3)/4*4 {
			return false
		}
	}
	return true
}

// oItem is an opaque of a random message.
type oItem struct {
	pos  int
	data []byte
}

// oMessage is head, then random words and opaques.
func oMessage(rng *rand.Rand, head []byte, most int) (msg []byte, items []oItem) {
	msg = head
	for range rng.IntN(5) {
		data := ramp(rng.IntN(23), byte(rng.Uint32()))
		if rng.IntN(3) == 0 {
			data = ramp(rng.IntN(most), byte(rng.Uint32()))
		}
		msg = binary.BigEndian.AppendUint32(msg, uint32(len(data)))
		items = append(items, oItem{len(msg), data})
		msg = append(msg, data...)
		for len(msg)%4 != 0 {
			msg = append(msg, 0)
		}
		words := rng.IntN(4)
		if rng.IntN(8) == 0 {
			words = rng.IntN(most / 4)
		}
		msg = append(msg, ramp(4*words, byte(rng.Uint32()))...)
	}
	return msg, items
}

// oCut offers b in random segments, some of no octets.
func oCut(rng *rand.Rand, mem oMemory, pos int, b []byte) (r []oRead) {
	for first := true; first || len(b) > 0; first = false {
		n := len(b)
		if rng.IntN(3) > 0 {
			n = rng.IntN(len(b) + 1)
		}
		s := mem.add(b[:n])
		r = append(r, oRead{uint64(pos), s.handle, s.length, s.off})
		b = b[n:]
	}
	return r
}

// oCall makes the header of a random call and its memory: any items reduced, pads in
// every manner, the rest inline or in a Position Zero chunk. Sometimes it is spoilt.
func oCall(rng *rand.Rand, xid uint32, msg []byte, items []oItem, mem oMemory) *oHeader {
	h := &oHeader{xid: xid}
	reduced, from := []byte(nil), 0
	for _, it := range items {
		if rng.IntN(2) == 0 {
			continue
		}
		reduced = append(reduced, msg[from:it.pos]...)
		end := it.pos + (len(it.data)+3)/4*4
		pad := msg[it.pos+len(it.data) : end]
		switch rng.IntN(3) {
		case 0: // no pad
			h.read = append(h.read, oCut(rng, mem, it.pos, it.data)...)
		case 1: // pad in the chunk
			h.read = append(h.read, oCut(rng, mem, it.pos, msg[it.pos:end])...)
		case 2: // pad as a segment of its own
			h.read = append(h.read, oCut(rng, mem, it.pos, it.data)...)
			h.read = append(h.read, oCut(rng, mem, it.pos, pad)...)
		}
		from = end
	}
	reduced = append(reduced, msg[from:]...)
	if h.inline = reduced; len(reduced) > 900 || rng.IntN(3) == 0 {
		h.proc, h.inline = 1, nil
		h.read = append(oCut(rng, mem, 0, reduced), h.read...)
	}
	if len(h.read) > 0 && rng.IntN(4) == 0 {
		oSpoil(rng, h)
	}
	return h
}

// oSpoil changes a read list; it may stay legal.
func oSpoil(rng *rand.Rand, h *oHeader) {
	i := rng.IntN(len(h.read))
	r := &h.read[i]
	switch rng.IntN(6) {
	case 0:
		r.pos = uint64(4 * rng.IntN(60))
	case 1:
		r.pos += uint64(rng.IntN(3))
	case 2:
		r.length -= uint64(rng.IntN(int(r.length) + 1))
	case 3:
		j := rng.IntN(len(h.read))
		h.read[i], h.read[j] = h.read[j], h.read[i]
	case 4:
		h.read = append(h.read, *r) // twice
	case 5:
		h.read = append(h.read[:i], h.read[i+1:]...)
	}
}

// anyProgram is one that no binding of the tests speaks for.
const anyProgram = 400100

// TestOracle: calls with chunks of every kind arrive as they were sent, and illegal ones
// are refused; replies come back by whatever the call has offered. A naive oracle says
// what is right, message by message.
func TestOracle(t *testing.T) {
	rng := seeded(t)
	seen := map[string]int{}
	var in rpcrdma.Inbound
	var out rpcrdma.Reply
	for i := range *messages {
		xid := uint32(i)
		r := newResponder(rpcrdma.ResponderConfig{
			Profile: rpcrdma.RFC5666, Reads: rng.IntN(2) == 0, SendSize: 1024, ExposeMin: 1 + rng.IntN(600),
			PreferReplyChunk: rng.IntN(2) == 0,
		})
		mem := oMemory{}
		head := xdr.AppendCall(nil, &xdr.CallHeader{XID: xid, RPCVers: 2, Prog: anyProgram})
		msg, items := oMessage(rng, head, 2000)
		h := oCall(rng, xid, msg, items, mem)
		oOffer(rng, h, mem)
		want, at, lens, ok := oRebuild(h, mem)
		v := r.Receive(oAppend(h), &in)
		post(r)
		if v == rpcrdma.Pull && oDefers(t, r, h, &in, mem, want, ok && oCounts(want, at, lens, 40)) {
			seen["deferred"]++
		}
		if v == rpcrdma.Pull {
			buf := bytes.Repeat([]byte{0xa5}, in.Layout.Total)
			in.Layout.Place(buf, in.Payload)
			for _, p := range in.Layout.Pulls {
				copy(buf[p.Dst:p.Dst+int(p.Length)], mem.at(uint64(p.Handle), p.Offset, uint64(p.Length)))
			}
			v = r.Pulled(&in, buf)
		}
		legal := ok && oCounts(want, at, lens, 40)
		switch {
		case ok && (len(want) < 40 || !bytes.Equal(want[:40], head)), len(at) > 0 && at[0] < 40:
			continue // the RPC header has become another one, maybe of another version
		case legal != (v == rpcrdma.Dispatch):
			t.Fatalf("message %d: the oracle says %v, the machine %v: %v\n%+v", i, legal, v, in.Err, h)
		case !legal:
			seen["refused"]++
			continue
		case !bytes.Equal(in.Args, want[40:]):
			t.Fatalf("message %d: %+v\n got %x\nwant %x", i, h, in.Args, want[40:])
		}
		seen["calls with "+map[uint32]string{0: "RDMA_MSG", 1: "RDMA_NOMSG"}[h.proc]]++
		if len(at) > 1 {
			seen["several read chunks"]++
		}
		oReply(t, rng, r, h, mem, &in, &out, seen)
	}
	t.Log(seen)
	for _, kind := range []string{
		"refused", "deferred", "calls with RDMA_MSG", "calls with RDMA_NOMSG", "several read chunks", "several write chunks used",
		"inline", "reply chunk", "reply chunk and write chunks", "read chunks", "read by position zero", "position zero and read chunks", "ERR_CHUNK",
	} {
		if seen[kind] == 0 {
			t.Errorf("never seen: %s", kind)
		}
	}
}
