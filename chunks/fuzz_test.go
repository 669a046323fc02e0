package chunks_test

import (
	"bytes"
	"testing"

	"github.com/stag-rdma/stag/chunks"
	"github.com/stag-rdma/stag/xdr"
)

// FuzzLists: what decodes encodes to the same octets, within the limits.
func FuzzLists(f *testing.F) {
	for _, v := range listVectors {
		f.Add(unhex(f, v.wire))
	}
	// Sums that wrap at 32 bits, in one chunk and over two lists.
	wrap := chunks.Lists{Write: []chunks.WriteChunk{{{1, 2, 0}, {1, 0xffffffff, 0}}}}
	f.Add(wrap.Append(nil))
	wrap = chunks.Lists{Read: []chunks.ReadSegment{{4, chunks.Segment{1, 5, 0}}}, Reply: chunks.WriteChunk{{1, 0xffffffff, 0}}, HasReply: true}
	f.Add(wrap.Append(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		var l chunks.Lists
		d := xdr.NewDecoder(b)
		if err := l.Decode(&d, nil); err != nil {
			if !l.Empty() {
				t.Error("lists left behind by an error")
			}
			return
		}
		got := l.Append(nil)
		if !bytes.Equal(got, b[:d.Offset()]) || l.Size() != len(got) {
			t.Errorf("encodes again as %x, size %d", got, l.Size())
		}
		sum := l.Reply.Room()
		for _, c := range l.Write {
			sum += c.Room()
		}
		for _, r := range l.Read {
			sum += uint64(r.Length)
		}
		if sum > chunks.DefaultMaxOctets || len(l.Read) > 256 || len(l.Write) > 8 {
			t.Errorf("over the limits: %d octets, %+v", sum, l)
		}
		var lay chunks.Layout
		for _, err := range []error{lay.Build(l.Read, 64, nil), lay.BuildLong(l.Read, nil)} {
			if err == nil && lay.Total > chunks.DefaultMaxOctets {
				t.Errorf("layout of %d octets", lay.Total)
			}
		}
	})
}

// FuzzLayout: octets choose segments; Layout agrees with the oracle. Two octets
// each: Position / 2, length.
func FuzzLayout(f *testing.F) {
	f.Add(uint8(24), []byte{4, 5, 4, 3})
	f.Add(uint8(24), []byte{4, 5, 10, 7})
	f.Add(uint8(24), []byte{10, 5, 4, 3})
	f.Fuzz(func(t *testing.T, inline uint8, ops []byte) {
		var pieces []piece
		for ; len(ops) >= 2 && len(pieces) < 200; ops = ops[2:] {
			if ops[0] == 0 {
				return // Position 0: TestLayoutErrors
			}
			pieces = append(pieces, piece{2 * int(ops[0]), ramp(int(ops[1]), ops[0])})
		}
		var l chunks.Layout
		checkLayout(t, &l, ramp(max(int(inline), 4), 1), pieces)
	})
}

// FuzzNFS3: an item found lies behind its count word, inside the octets given.
func FuzzNFS3(f *testing.F) {
	f.Add(uint8(7), writeArgs(32, 8190))
	f.Add(uint8(10), symlinkArgs("ab", []uint32{1, 1, 0, 0, 0, 2, 1, 2, 0}, 9))
	f.Add(uint8(6), words(attrs(words(nil, 0)), 6, 0, 6))
	f.Add(uint8(5), words(nil, 0, 0, 3))
	f.Fuzz(func(t *testing.T, proc uint8, b []byte) {
		check := func(pos, n int, ok bool) {
			switch {
			case !ok && (pos != 0 || n != 0):
				t.Errorf("not found, but at %d, %d octets", pos, n)
			case ok && (pos < 4 || pos > len(b) || pos%4 != 0):
				t.Errorf("found at %d of %d", pos, len(b))
			case ok && !bytes.Equal(b[pos-4:pos], xdr.AppendUint32(nil, uint32(n))):
				t.Errorf("found %d octets at %d, the word before is %x", n, pos, b[pos-4:pos])
			}
		}
		check(chunks.NFSv3.FindArg(100003, 3, uint32(proc), b))
		check(chunks.NFSv3.FindResult(100003, 3, uint32(proc), b))
		if n, item, ok := chunks.NFSv3.MaxResults(100003, 3, uint32(proc), b); ok && (n < 0 || item < 0) {
			t.Errorf("largest results %d, %d", n, item)
		}
	})
}
