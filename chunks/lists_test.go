package chunks_test

import (
	"bytes"
	"errors"
	"math"
	"runtime"
	"testing"

	"github.com/stag-rdma/stag/chunks"
	"github.com/stag-rdma/stag/xdr"
)

// listVectors are lists of whole messages in the protocol's test vectors.
var listVectors = []struct {
	name string
	wire string
	want chunks.Lists
}{
	{"empty", "00000000 00000000 00000000", chunks.Lists{}},
	{
		"read chunk of two segments",
		`00000001 00000060 a1a1a1a1 00001000 0000000000010000
		 00000001 00000060 a1a1a1a2 00000ffe 0000000000020000 00000000
		 00000000 00000000`,
		chunks.Lists{Read: []chunks.ReadSegment{
			{96, chunks.Segment{0xa1a1a1a1, 4096, 0x10000}},
			{96, chunks.Segment{0xa1a1a1a2, 4094, 0x20000}},
		}},
	},
	{
		"write chunk of two segments",
		`00000000
		 00000001 00000002 b1b1b1b1 00001000 0000000000030000 b1b1b1b2 00001000 0000000000040000
		 00000000 00000000`,
		chunks.Lists{Write: []chunks.WriteChunk{{{0xb1b1b1b1, 4096, 0x30000}, {0xb1b1b1b2, 4096, 0x40000}}}},
	},
	{
		"long call and reply chunk",
		`00000001 00000000 c1c1c1c1 00000514 0000000000050000 00000000 00000000
		 00000001 00000001 d1d1d1d1 00008000 0000000000060000`,
		chunks.Lists{
			Read:  []chunks.ReadSegment{{0, chunks.Segment{0xc1c1c1c1, 1300, 0x50000}}},
			Reply: chunks.WriteChunk{{0xd1d1d1d1, 32768, 0x60000}}, HasReply: true,
		},
	},
	{
		"empty chunks",
		"00000000 00000001 00000000 00000001 00000000 00000000 00000001 00000000",
		chunks.Lists{Write: []chunks.WriteChunk{{}, {}}, Reply: chunks.WriteChunk{}, HasReply: true},
	},
}

// same compares lists; memory kept for later does not count.
func same(a, b *chunks.Lists) bool {
	return a.HasReply == b.HasReply && bytes.Equal(a.Append(nil), b.Append(nil))
}

func TestListsVectors(t *testing.T) {
	var l chunks.Lists // reused: leftovers of one vector must not show in the next
	for _, v := range listVectors {
		t.Run(v.name, func(t *testing.T) {
			wire := unhex(t, v.wire)
			if got := v.want.Append(nil); !bytes.Equal(got, wire) {
				t.Errorf("append\n got %x\nwant %x", got, wire)
			}
			if got := v.want.Size(); got != len(wire) {
				t.Errorf("size = %d, want %d", got, len(wire))
			}
			d := xdr.NewDecoder(append(bytes.Clone(wire), "rest"...))
			if err := l.Decode(&d, nil); err != nil {
				t.Fatal(err)
			}
			if !same(&l, &v.want) {
				t.Errorf("decoded %+v, want %+v", l, v.want)
			}
			if string(d.Rest()) != "rest" {
				t.Errorf("cursor at %d, want %d", d.Offset(), len(wire))
			}
			for n := range wire {
				d := xdr.NewDecoder(wire[:n])
				if err := l.Decode(&d, nil); !errors.Is(err, xdr.ErrShort) {
					t.Errorf("first %d octets: error %v, want ErrShort", n, err)
				}
				if !l.Empty() {
					t.Errorf("first %d octets left %+v behind", n, l)
				}
			}
		})
	}
}

func readList(n int, length uint32) (l chunks.Lists) {
	for range n {
		l.Read = append(l.Read, chunks.ReadSegment{4, chunks.Segment{1, length, 0}})
	}
	return l
}

func chunkOf(n int, length uint32) (c chunks.WriteChunk) {
	for range n {
		c = append(c, chunks.Segment{1, length, 0})
	}
	return c
}

func TestListsLimits(t *testing.T) {
	small := &chunks.Limits{MaxReadSegments: 2, MaxWriteChunks: 2, MaxSegments: 2, MaxOctets: 100}
	huge := &chunks.Limits{MaxOctets: math.MaxUint64}
	for _, c := range []struct {
		name  string
		lim   *chunks.Limits
		lists chunks.Lists
		want  error
		field string
	}{
		{"read segments", small, readList(2, 1), nil, ""},
		{"read segments + 1", small, readList(3, 1), chunks.ErrTooMany, "read list"},
		{"write chunks", small, chunks.Lists{Write: make([]chunks.WriteChunk, 2)}, nil, ""},
		{"write chunks + 1", small, chunks.Lists{Write: make([]chunks.WriteChunk, 3)}, chunks.ErrTooMany, "write list"},
		{"segments of a chunk", small, chunks.Lists{Write: []chunks.WriteChunk{chunkOf(2, 1)}}, nil, ""},
		{"segments of a chunk + 1", small, chunks.Lists{Write: []chunks.WriteChunk{chunkOf(3, 1)}}, chunks.ErrTooMany, "write list"},
		{"segments of the reply chunk + 1", small, chunks.Lists{Reply: chunkOf(3, 1), HasReply: true}, chunks.ErrTooMany, "reply chunk"},
		{"octets", small, readList(2, 50), nil, ""},
		{"octets + 1", small, readList(2, 51), chunks.ErrTooLarge, "read list"},
		{"octets over all lists", small, chunks.Lists{
			Read: readList(1, 40).Read, Write: []chunks.WriteChunk{chunkOf(1, 40)}, Reply: chunkOf(1, 20), HasReply: true,
		}, nil, ""},
		{"octets over all lists + 1", small, chunks.Lists{
			Read: readList(1, 40).Read, Write: []chunks.WriteChunk{chunkOf(1, 40)}, Reply: chunkOf(1, 21), HasReply: true,
		}, chunks.ErrTooLarge, "reply chunk"},
		{"1 GiB whatever is configured", huge, readList(1, 1<<30+1), chunks.ErrTooLarge, "read list"},
		{"sum beyond 32 bits", huge, readList(2, math.MaxUint32), chunks.ErrTooLarge, "read list"},
		{"sum that is small mod 2^32", huge, chunks.Lists{Write: []chunks.WriteChunk{{
			{Length: math.MaxUint32}, {Length: 2},
		}}}, chunks.ErrTooLarge, "write list"},
		// Here the sum wraps at the very segment that is checked.
		{"sum that wraps to a small one", huge, chunks.Lists{Write: []chunks.WriteChunk{{
			{Length: 2}, {Length: math.MaxUint32},
		}}}, chunks.ErrTooLarge, "write list"},
		{"sum that wraps to a small one, three lists", huge, chunks.Lists{
			Read:  readList(1, 1).Read,
			Write: []chunks.WriteChunk{chunkOf(1, 1)},
			Reply: chunkOf(1, math.MaxUint32), HasReply: true,
		}, chunks.ErrTooLarge, "reply chunk"},
		{"wrap", nil, chunks.Lists{Read: []chunks.ReadSegment{{4, chunks.Segment{1, 2, math.MaxUint64}}}}, chunks.ErrWrap, "read list"},
		{"no octets at the end of the offset space", nil, chunks.Lists{Read: []chunks.ReadSegment{{4, chunks.Segment{1, 0, math.MaxUint64}}}}, nil, ""},
		{"wrap in a write chunk", nil, chunks.Lists{Write: []chunks.WriteChunk{{{1, 16, math.MaxUint64 - 14}}}}, chunks.ErrWrap, "write list"},
		{"wrap in the reply chunk", nil, chunks.Lists{Reply: chunks.WriteChunk{{1, 16, math.MaxUint64 - 14}}, HasReply: true}, chunks.ErrWrap, "reply chunk"},
		{"last octet of the offset space", nil, chunks.Lists{Reply: chunks.WriteChunk{{1, 15, math.MaxUint64 - 15}}, HasReply: true}, nil, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			var got chunks.Lists
			d := xdr.NewDecoder(c.lists.Append(nil))
			err := got.Decode(&d, c.lim)
			if !errors.Is(err, c.want) {
				t.Fatalf("error %v, want %v", err, c.want)
			}
			if c.want == nil {
				if !same(&got, &c.lists) {
					t.Errorf("decoded %+v", got)
				}
				return
			}
			if de, ok := errors.AsType[*xdr.DecodeError](err); !ok || de.Field != c.field {
				t.Errorf("error %v, want field %q", err, c.field)
			}
			if !got.Empty() {
				t.Error("lists not empty after an error")
			}
		})
	}
}

// TestCountsDoNotAllocate: a count word far above what is there costs nothing.
func TestCountsDoNotAllocate(t *testing.T) {
	for _, list := range []string{
		"00000000 00000001 7fffffff 00000000 00000000", // a write chunk
		"00000000 00000001 03ffffff 00000000 00000000",
		"00000000 00000000 00000001 7fffffff", // the reply chunk
	} {
		wire := unhex(t, list)
		var l chunks.Lists
		var err error
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		d := xdr.NewDecoder(wire)
		err = l.Decode(&d, &chunks.Limits{MaxSegments: math.MaxInt32})
		runtime.ReadMemStats(&after)
		if !errors.Is(err, xdr.ErrShort) {
			t.Fatalf("%s: error %v, want ErrShort", list, err)
		}
		if n := after.TotalAlloc - before.TotalAlloc; n > 256<<10 {
			t.Errorf("%s: %d octets allocated", list, n)
		}
	}
}

// listsOf returns lists with so much of everything that Limits bounds.
func listsOf(size chunks.Limits) *chunks.Lists {
	l := &chunks.Lists{Read: make([]chunks.ReadSegment, size.MaxReadSegments)}
	for i := range l.Read {
		l.Read[i].Position = 4
	}
	for range size.MaxWriteChunks {
		l.AddWrite()
	}
	l.Reply, l.HasReply = make(chunks.WriteChunk, size.MaxSegments), true
	l.Reply[0].Length = uint32(size.MaxOctets)
	return l
}

// decoded returns the lists as a peer reads them.
func decoded(l *chunks.Lists, lim *chunks.Limits) (got chunks.Lists, err error) {
	d := xdr.NewDecoder(l.Append(nil))
	err = got.Decode(&d, lim)
	return got, err
}

func TestLimitsDefaults(t *testing.T) {
	for _, c := range []struct {
		name string
		lim  *chunks.Limits
		want chunks.Limits
	}{
		{"nil", nil, chunks.Limits{256, 8, 256, 4<<20 + 64<<10}},
		{"zero", &chunks.Limits{}, chunks.Limits{256, 8, 256, 4<<20 + 64<<10}},
		{"set", &chunks.Limits{1, 2, 3, 4}, chunks.Limits{1, 2, 3, 4}},
		{"more than an int may hold", &chunks.Limits{1, 2, 3, 1 << 40}, chunks.Limits{1, 2, 3, 1 << 30}},
	} {
		if _, err := decoded(listsOf(c.want), c.lim); err != nil {
			t.Errorf("%s: %+v refused: %v", c.name, c.want, err)
		}
		for field, over := range map[string]struct {
			chunks.Limits
			err error
		}{
			"read segments": {chunks.Limits{1, 0, 0, 0}, chunks.ErrTooMany},
			"write chunks":  {chunks.Limits{0, 1, 0, 0}, chunks.ErrTooMany},
			"segments":      {chunks.Limits{0, 0, 1, 0}, chunks.ErrTooMany},
			"octets":        {chunks.Limits{0, 0, 0, 1}, chunks.ErrTooLarge},
		} {
			size := chunks.Limits{
				c.want.MaxReadSegments + over.MaxReadSegments, c.want.MaxWriteChunks + over.MaxWriteChunks,
				c.want.MaxSegments + over.MaxSegments, c.want.MaxOctets + over.MaxOctets,
			}
			if _, err := decoded(listsOf(size), c.lim); !errors.Is(err, over.err) {
				t.Errorf("%s: %+v, too many %s: %v, want %v", c.name, size, field, err, over.err)
			}
		}
	}
}
