package chunks_test

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"github.com/stag-rdma/stag/chunks"
	"github.com/stag-rdma/stag/xdr"
)

// randomMessage is a stream of n items of lengths mod 4 of every kind, with
// words between them, split into Head and Body anywhere.
func randomMessage(rng *rand.Rand) (whole, reduced chunks.Message) {
	stream := ramp(4*(1+rng.IntN(6)), byte(rng.Uint32()))
	var items []chunks.Item
	for range rng.IntN(4) {
		n := rng.IntN(23)
		stream = xdr.AppendUint32(stream, uint32(n))
		items = append(items, chunks.Item{Pos: len(stream), Data: ramp(n, byte(rng.Uint32()))})
		stream = append(stream, items[len(items)-1].Data...)
		stream = xdr.AppendPad(stream, n)
		stream = append(stream, ramp(4*rng.IntN(4), byte(rng.Uint32()))...)
	}
	cut := 4 * rng.IntN(len(stream)/4+1)
	return build(stream[:cut], stream[cut:], items)
}

// shred cuts b into segments of the peer's memory, some empty.
func shred(rng *rand.Rand, mem *peerMemory, pos int, b []byte) (r []chunks.ReadSegment) {
	for first := true; first || len(b) > 0; first = false {
		n := rng.IntN(len(b) + 1)
		if rng.IntN(3) == 0 {
			n = len(b)
		}
		r = append(r, chunks.ReadSegment{uint32(pos), mem.offer(b[:n])})
		b = b[n:]
	}
	return r
}

// TestReduceReassemble: reduce, encode the list, decode it, lay out, place and
// pull; the result is the message, octet for octet, whatever way its pads went.
func TestReduceReassemble(t *testing.T) {
	rng := seeded(t)
	var l chunks.Layout
	var lists chunks.Lists
	for range 20000 {
		whole, reduced := randomMessage(rng)
		m := &whole
		if rng.IntN(2) == 0 {
			m = &reduced
		}
		if err := m.Check(); err != nil {
			t.Fatalf("%+v: %v", m, err)
		}
		var mem peerMemory
		var send chunks.Lists
		var out chunks.Set
		for i, it := range m.Items {
			if rng.IntN(2) == 0 {
				continue
			}
			out = out.With(i)
			data := it.Data
			switch rng.IntN(3) {
			case 1:
				data = xdr.AppendPad(bytes.Clone(data), len(data))
			case 2:
				send.Read = append(send.Read, shred(rng, &mem, it.Pos, data)...)
				data = make([]byte, xdr.Pad(len(data)))
			}
			send.Read = append(send.Read, shred(rng, &mem, it.Pos, data)...)
		}
		inline := m.Append(nil, out)
		long := rng.IntN(2) == 0
		if long {
			send.Read = append(shred(rng, &mem, 0, inline), send.Read...)
			inline = nil
		}

		d := xdr.NewDecoder(send.Append(nil))
		if err := lists.Decode(&d, nil); err != nil {
			t.Fatal(err)
		}
		var err error
		if long {
			err = l.BuildLong(lists.Read, nil)
		} else {
			err = l.Build(lists.Read, len(inline), nil)
		}
		if err != nil {
			t.Fatalf("%+v: %v", send, err)
		}
		if got, want := mem.rebuild(t, &l, inline), whole.Append(nil, 0); !bytes.Equal(got, want) {
			t.Fatalf("read list %+v\n got %x\nwant %x", send.Read, got, want)
		}
	}
}

// TestScatterGather: a reduced stream written into any reply chunk arrives whole.
func TestScatterGather(t *testing.T) {
	rng := seeded(t)
	for range 5000 {
		whole, reduced := randomMessage(rng)
		out := chunks.Set(rng.Uint64())
		want := whole.Append(nil, out)
		var mem peerMemory
		var c chunks.WriteChunk
		for room := 0; room < len(want); {
			n := rng.IntN(40)
			c = append(c, mem.offer(make([]byte, n)))
			room += n
		}
		if err := c.Fill(len(want)); err != nil {
			t.Fatal(err)
		}
		for _, w := range chunks.AppendWrites(nil, c, reduced.Pieces(nil, out)) {
			copy(mem.at(t, w.Handle, w.Offset, len(w.Data)), w.Data)
		}
		if got := bytes.Join(mem.mem, nil)[:len(want)]; !bytes.Equal(got, want) {
			t.Fatalf("\n got %x\nwant %x", got, want)
		}
	}
}
