package chunks_test

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"testing"

	"github.com/stag-rdma/stag/chunks"
)

// piece is one read segment with its octets.
type piece struct {
	pos  int
	data []byte
}

// oracle rebuilds a stream octet by octet, as RFC 8166 Section 3.4.5 tells it in
// words. ok is false when the positions make no sense.
func oracle(inline []byte, pieces []piece) (out []byte, ok bool) {
	for i := 0; i < len(pieces); {
		pos := pieces[i].pos
		if pos == 0 || pos%4 != 0 {
			return nil, false
		}
		for len(out) < pos {
			if len(inline) == 0 {
				return nil, false
			}
			out, inline = append(out, inline[0]), inline[1:]
		}
		if len(out) != pos {
			return nil, false
		}
		for i < len(pieces) && pieces[i].pos == pos {
			out = append(out, pieces[i].data...)
			i++
		}
		for len(out)%4 != 0 {
			out = append(out, 0)
		}
	}
	return append(out, inline...), true
}

// read offers the pieces and returns the read list.
func (p *peerMemory) read(pieces []piece) (r []chunks.ReadSegment) {
	for _, q := range pieces {
		r = append(r, chunks.ReadSegment{uint32(q.pos), p.offer(q.data)})
	}
	return r
}

// checkLayout compares Layout with the oracle, inline and by Position Zero.
func checkLayout(t *testing.T, l *chunks.Layout, inline []byte, pieces []piece) {
	t.Helper()
	want, ok := oracle(inline, pieces)

	var mem peerMemory
	err := l.Build(mem.read(pieces), len(inline), nil)
	if (err == nil) != ok {
		t.Fatalf("inline: error %v, oracle says ok = %v", err, ok)
	}
	if ok {
		if got := mem.rebuild(t, l, inline); !bytes.Equal(got, want) {
			t.Fatalf("inline\n got %x\nwant %x", got, want)
		}
	} else if l.Total != 0 || len(l.Pulls) != 0 {
		t.Fatalf("refused, but the layout is %+v", l)
	}

	// The same stream as a Position Zero chunk in three segments of odd sizes.
	a, b := len(inline)/3, len(inline)/3*2+1
	long := append([]piece{{0, inline[:a]}, {0, inline[a:b]}, {0, inline[b:]}}, pieces...)
	mem = peerMemory{}
	err = l.BuildLong(mem.read(long), nil)
	if (err == nil) != ok {
		t.Fatalf("long: error %v, oracle says ok = %v", err, ok)
	}
	if ok {
		if got := mem.rebuild(t, l, nil); !bytes.Equal(got, want) {
			t.Fatalf("long\n got %x\nwant %x", got, want)
		}
	}
}

func TestLayoutOneChunk(t *testing.T) {
	var l chunks.Layout
	for odd := range 4 {
		inline := ramp(24+odd, 1)
		for pos := 1; pos <= 32; pos++ { // 0: see TestLayoutErrors
			for n := range 10 {
				checkLayout(t, &l, inline, []piece{{pos, ramp(n, 0x80)}})
			}
		}
	}
}

// TestLayoutRoundup: all ways to bring an opaque of n octets and its pad give
// the same stream (RFC 8166 Section 3.4.5.2).
func TestLayoutRoundup(t *testing.T) {
	head, tail := ramp(8, 1), ramp(8, 0x40)
	inline := append(bytes.Clone(head), tail...)
	var l chunks.Layout
	for n := range 14 {
		data := ramp(n, 0x80)
		want := append(bytes.Clone(head), data...)
		want = append(want, make([]byte, -n&3)...)
		want = append(want, tail...)
		padded := append(bytes.Clone(data), make([]byte, -n&3)...)
		for name, pieces := range map[string][]piece{
			"exact":               {{8, data}},
			"exact, two segments": {{8, data[:n/2]}, {8, data[n/2:]}},
			"padded":              {{8, padded}},
			"pad apart":           {{8, data}, {8, make([]byte, -n&3)}},
			"empty segments":      {{8, nil}, {8, data}, {8, nil}},
		} {
			t.Run(fmt.Sprintf("%d %s", n, name), func(t *testing.T) {
				var mem peerMemory
				if err := l.Build(mem.read(pieces), len(inline), nil); err != nil {
					t.Fatal(err)
				}
				if got := mem.rebuild(t, &l, inline); !bytes.Equal(got, want) {
					t.Errorf("\n got %x\nwant %x", got, want)
				}
				if len(l.Chunks) != 1 || l.Chunks[0].Pos != 8 || !l.Chunks[0].Holds(n) {
					t.Errorf("chunks = %+v, want one at 8 that holds %d octets", l.Chunks, n)
				}
			})
		}
	}
}

func seg(pos, n uint32) chunks.ReadSegment {
	return chunks.ReadSegment{pos, chunks.Segment{1, n, 0x1000}}
}

func TestLayoutErrors(t *testing.T) {
	for _, c := range []struct {
		name   string
		long   bool
		inline int
		read   []chunks.ReadSegment
		want   error
	}{
		{"position 98", false, 100, []chunks.ReadSegment{seg(98, 4)}, chunks.ErrPosition},
		{"position 0 in an inline message", false, 100, []chunks.ReadSegment{seg(0, 4)}, chunks.ErrPosition},
		{"position 0 behind another", false, 100, []chunks.ReadSegment{seg(8, 4), seg(0, 4)}, chunks.ErrPosition},
		{"descending", false, 100, []chunks.ReadSegment{seg(40, 4), seg(8, 4)}, chunks.ErrPosition},
		{"the same position again", false, 100, []chunks.ReadSegment{seg(8, 4), seg(40, 4), seg(8, 4)}, chunks.ErrPosition},
		{"inside the chunk before", false, 100, []chunks.ReadSegment{seg(8, 9), seg(16, 4)}, chunks.ErrOverlap},
		{"right behind the chunk before", false, 100, []chunks.ReadSegment{seg(8, 8), seg(16, 4)}, nil},
		{"at the end", false, 100, []chunks.ReadSegment{seg(100, 4)}, nil},
		{"beyond the end", false, 100, []chunks.ReadSegment{seg(104, 4)}, chunks.ErrBeyond},
		{"far beyond", false, 100, []chunks.ReadSegment{seg(math.MaxUint32-3, 4)}, chunks.ErrBeyond},
		{"in range only thanks to a chunk before", false, 100, []chunks.ReadSegment{seg(8, 100), seg(200, 4)}, nil},
		{"behind what a chunk before adds", false, 100, []chunks.ReadSegment{seg(8, 100), seg(204, 4)}, chunks.ErrBeyond},
		{"total of 32-bit lengths", false, 100, []chunks.ReadSegment{seg(8, math.MaxUint32), seg(8, 5)}, chunks.ErrTooLarge},
		{"total that wraps to a small one", false, 100, []chunks.ReadSegment{seg(8, 5), seg(8, math.MaxUint32)}, chunks.ErrTooLarge},
		{"total that wraps to a small one, two chunks", false, 100, []chunks.ReadSegment{seg(8, 8), seg(20, math.MaxUint32-7)}, chunks.ErrTooLarge},
		{"total over the limit with the inline octets", false, 100, []chunks.ReadSegment{seg(8, 4<<20+64<<10-96)}, chunks.ErrTooLarge},
		{"inline alone over the limit", false, 5 << 20, nil, chunks.ErrTooLarge},
		{"no position zero chunk", true, 0, []chunks.ReadSegment{seg(8, 4)}, chunks.ErrNoStream},
		{"no read list", true, 0, nil, chunks.ErrNoStream},
		{"position zero not adjacent", true, 0, []chunks.ReadSegment{seg(0, 100), seg(8, 4), seg(0, 4)}, chunks.ErrPosition},
		{"long, beyond", true, 0, []chunks.ReadSegment{seg(0, 100), seg(104, 4)}, chunks.ErrBeyond},
		{"long, overlap", true, 0, []chunks.ReadSegment{seg(0, 100), seg(8, 8), seg(12, 4)}, chunks.ErrOverlap},
		{"long, too large", true, 0, []chunks.ReadSegment{seg(0, math.MaxUint32), seg(0, 2)}, chunks.ErrTooLarge},
		{"long, empty", true, 0, []chunks.ReadSegment{seg(0, 0)}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			var l chunks.Layout
			var err error
			if c.long {
				err = l.BuildLong(c.read, nil)
			} else {
				err = l.Build(c.read, c.inline, nil)
			}
			if !errors.Is(err, c.want) {
				t.Errorf("error %v, want %v", err, c.want)
			}
			if err != nil && (l.Total != 0 || l.Long || len(l.Pulls) != 0) {
				t.Errorf("layout after an error: %+v", l)
			}
		})
	}
}
