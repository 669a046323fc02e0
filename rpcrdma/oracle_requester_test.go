package rpcrdma_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/stag-rdma/stag/chunks"
	"github.com/stag-rdma/stag/rpcrdma"
	"github.com/stag-rdma/stag/xdr"
)

// several is the binding of a program whose calls and replies are a count and so many
// eligible opaques, then words.
type several struct{ chunks.Binding }

func (several) Eligible(_, _, _ uint32) (arg, result bool) { return true, true }

func (several) FindResult(_, _, _ uint32, _ []byte) (pos, n int, ok bool) { return 0, 0, false }

func (several) Lists(prog, _ uint32) bool { return prog == anyProgram }

func (several) ListArgs(_, _, _ uint32, b []byte, visit chunks.Visit) bool {
	d := xdr.NewDecoder(b)
	for range d.Uint32() {
		n := int(d.Uint32())
		if d.Err() != nil {
			return false
		}
		d.Skip(visit(d.Offset(), n))
	}
	return d.Err() == nil
}

func (s several) ListResults(prog, vers, proc uint32, b []byte, visit chunks.Visit) bool {
	return s.ListArgs(prog, vers, proc, b, visit)
}

// oSeveral is head and a body of that program: whole, and with all items missing.
func oSeveral(rng *rand.Rand, head []byte) (whole, reduced []byte, items []chunks.Item) {
	u32 := func(n int) {
		whole = binary.BigEndian.AppendUint32(whole, uint32(n))
		reduced = binary.BigEndian.AppendUint32(reduced, uint32(n))
	}
	whole = append(whole, head...)
	k := rng.IntN(6)
	u32(k)
	for range k {
		data := ramp(rng.IntN(40), byte(rng.Uint32()))
		if rng.IntN(2) == 0 {
			data = ramp(rng.IntN(1500), byte(rng.Uint32()))
		}
		u32(len(data))
		items = append(items, chunks.Item{Pos: len(whole), Data: data})
		whole = xdr.AppendPad(append(whole, data...), len(data))
	}
	words := rng.IntN(5)
	if rng.IntN(6) == 0 {
		words = rng.IntN(500)
	}
	for range words {
		u32(int(rng.Uint32()))
	}
	return whole, reduced, items
}

// oRegister gives a planned call the memory it asks for, in random segments for the calls
// and one for each result.
func oRegister(rng *rand.Rand, c *rpcrdma.Call, mem oMemory) {
	one := func(b []byte) (w chunks.WriteChunk) {
		for first := true; first || len(b) > 0; first = false {
			n := len(b)
			if rng.IntN(4) == 0 {
				n = rng.IntN(len(b) + 1)
			}
			s := mem.add(b[:n])
			w = append(w, chunks.Segment{Handle: chunks.Handle(s.handle), Length: uint32(n), Offset: s.off})
			b = b[n:]
		}
		return w
	}
	room := func(n int) chunks.WriteChunk {
		if n == 0 {
			return nil
		}
		s := mem.add(bytes.Repeat([]byte{0xa5}, n))
		return chunks.WriteChunk{{Handle: chunks.Handle(s.handle), Length: uint32(n), Offset: s.off}}
	}
	c.Memory = rpcrdma.Memory{}
	for i, it := range c.Message.Items {
		switch {
		case i == 0 && c.Plan.Arg:
			c.Memory.Arg = one(it.Data)
		case i > 0 && c.Plan.More.Has(i):
			c.Memory.More = append(c.Memory.More, one(it.Data))
		case i > 0:
			c.Memory.More = append(c.Memory.More, nil)
		}
	}
	if c.Plan.Stream > 0 {
		c.Memory.Stream = one(c.AppendStream(nil))
	}
	if c.Plan.Sink {
		c.Memory.Sink = room(c.Sink)
		for _, n := range c.MoreSinks {
			c.Memory.MoreSinks = append(c.Memory.MoreSinks, room(n))
		}
	}
	c.Memory.Reply = room(c.Plan.Reply)
}

// TestOracleRequester: calls with several items and room for several results, by read chunks
// at several positions, behind a Position Zero chunk or inline, arrive as they were meant;
// their replies, by several write chunks, a reply chunk, both or inline, come together
// again. The naive walk of the other oracle says what is right.
func TestOracleRequester(t *testing.T) {
	rng := seeded(t)
	seen := map[string]int{}
	var in rpcrdma.Inbound
	var out rpcrdma.Reply
	for i := range *messages {
		xid := uint32(i)
		q := made(rpcrdma.NewRequester(rpcrdma.RequesterConfig{Binding: several{chunks.NFSv3}, SendSize: 1024, RecvSize: 1024, ReduceMin: 1 + rng.IntN(900), SinkMin: 1 + rng.IntN(900)}))
		r := newResponder(rpcrdma.ResponderConfig{Binding: several{chunks.NFSv3}, SendSize: 1024, PreferReplyChunk: rng.IntN(2) == 0})
		mem := oMemory{}
		head := xdr.AppendCall(nil, &xdr.CallHeader{XID: xid, RPCVers: 2, Prog: anyProgram})
		want, reduced, items := oSeveral(rng, head)
		res, _, results := oSeveral(rng, xdr.AppendReply(nil, &xdr.ReplyHeader{XID: xid}))
		c := &rpcrdma.Call{XID: xid, Prog: anyProgram, Message: chunks.Message{Head: head, Body: reduced, Items: items}, MaxReply: len(res)}
		oSinks(rng, c, results)
		noErr(t, q.Plan(c))
		oRegister(rng, c, mem)
		noErr(t, q.Begin(c))
		send, _, err := q.AppendCall(nil, c)
		if errors.Is(err, rpcrdma.ErrTooLong) { // as documented
			seen["too many segments"]++
			continue
		}
		if err != nil || len(send) > 1024 {
			t.Fatalf("%d octets, %v", len(send), err)
		}
		h := oParse(send)
		msg, at, lens, ok := oRebuild(&h, mem)
		if !ok || !bytes.Equal(msg, want) || !oCounts(msg, at, lens, 40) {
			t.Fatalf("message %d: %+v\n got %x\nwant %x", i, c.Plan, msg, want)
		}
		if len(at) > 1 {
			seen["several read chunks"]++
		}
		if len(at) > 0 && h.proc == 1 {
			seen["position zero and read chunks"]++
		}
		oServe(t, r, &in, &out, send, mem, want, res, results)
		if out.Form == rpcrdma.FormError {
			seen["ERR_CHUNK"]++
			if !oOver(c, results) {
				t.Fatalf("message %d: %v", i, out.Err)
			}
			continue
		}
		oFinish(t, q, c, &out, mem, res, results, seen)
	}
	t.Log(seen)
	for _, kind := range []string{
		"several read chunks", "position zero and read chunks", "several write chunks", "write chunks and reply chunk", "inline beside placed", "nothing placed", "ERR_CHUNK",
	} {
		if seen[kind] == 0 {
			t.Errorf("never seen: %s", kind)
		}
	}
}

// oSinks makes room for some results, seldom too little.
func oSinks(rng *rand.Rand, c *rpcrdma.Call, results []chunks.Item) {
	for i := range rng.IntN(6) {
		n := rng.IntN(100)
		if i < len(results) {
			n += len(results[i].Data)
		}
		switch rng.IntN(20) {
		case 0:
			n /= 2
		case 1, 2:
			n = 0
		}
		if i == 0 {
			c.Sink = n
		} else {
			c.MoreSinks = append(c.MoreSinks, n)
		}
	}
}

// oSink returns the octets of sink k of a call.
func oSink(c *rpcrdma.Call, k int) int {
	if k == 0 {
		return c.Sink
	}
	return c.MoreSinks[k-1]
}

// oOver reports whether a result is longer than the sink that it has to take.
func oOver(c *rpcrdma.Call, results []chunks.Item) bool {
	for i, it := range results {
		if i <= len(c.MoreSinks) && c.Plan.Sink && oSink(c, i) > 0 && len(it.Data) > oSink(c, i) {
			return true
		}
	}
	return false
}

// oServe has the responder pull and answer a call.
func oServe(t *testing.T, r *rpcrdma.Responder, in *rpcrdma.Inbound, out *rpcrdma.Reply, send []byte, mem oMemory, want, res []byte, results []chunks.Item) {
	t.Helper()
	v := r.Receive(send, in)
	post(r)
	if v == rpcrdma.Pull {
		buf := make([]byte, in.Layout.Total)
		in.Layout.Place(buf, in.Payload)
		for _, p := range in.Layout.Pulls {
			copy(buf[p.Dst:], mem.at(uint64(p.Handle), p.Offset, uint64(p.Length)))
		}
		v = r.Pulled(in, buf)
	}
	if v != rpcrdma.Dispatch || !bytes.Equal(in.Args, want[40:]) {
		t.Fatalf("%v, %v\n got %x\nwant %x", v, in.Err, in.Args, want[40:])
	}
	r.Reply(nil, in, &chunks.Message{Body: res, Items: results, Whole: true}, out)
	for _, w := range out.Writes {
		copy(mem.at(uint64(w.Handle), w.Offset, uint64(len(w.Data))), w.Data)
	}
}

// oFinish gives the reply to the requester and puts its results together.
func oFinish(t *testing.T, q *rpcrdma.Requester, c *rpcrdma.Call, out *rpcrdma.Reply, mem oMemory, res []byte, results []chunks.Item, seen map[string]int) {
	t.Helper()
	got, why := q.Receive(append(out.Head, out.Body...))
	if got != c {
		t.Fatalf("no call: %v", why)
	}
	var long []byte
	if c.Plan.Reply > 0 {
		s := c.Memory.Reply[0]
		long = mem.at(uint64(s.Handle), s.Offset, uint64(s.Length))
	}
	if err := q.CheckReply(c, long); err != nil {
		t.Fatalf("%v: %+v, sinks %d %d, lens %d", err, c.Plan, c.Sink, c.MoreSinks, c.Lens)
	}
	var b []byte
	from, placed, inline := 0, 0, 0
	several{}.ListResults(anyProgram, 0, 0, c.Result.Results, func(pos, n int) int {
		k := placed + inline
		if k < len(c.Lens) && oSink(c, k) > 0 {
			placed++
			b = append(b, c.Result.Results[from:pos]...)
			if from = pos; n == 0 {
				return 0
			}
			w := c.Memory.Sink
			if k > 0 {
				w = c.Memory.MoreSinks[k-1]
			}
			b = append(b, mem.at(uint64(w[0].Handle), w[0].Offset, uint64(c.Lens[k]))...)
			b = xdr.AppendPad(b, n)
			return 0
		}
		inline++
		return n + xdr.Pad(n)
	})
	if b = append(b, c.Result.Results[from:]...); !bytes.Equal(b, res[24:]) {
		t.Fatalf("%+v, lens %d\n got %x\nwant %x", c.Plan, c.Lens, b, res[24:])
	}
	switch {
	case placed > 1 && c.Result.Long:
		seen["write chunks and reply chunk"]++
	case placed > 1:
		seen["several write chunks"]++
	case placed == 0:
		seen["nothing placed"]++
	}
	if placed > 0 && inline > 0 {
		seen["inline beside placed"]++
	}
	if placed+inline != len(results) {
		t.Fatalf("%d results, %d found", len(results), placed+inline)
	}
}
