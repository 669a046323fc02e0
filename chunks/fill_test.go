package chunks_test

import (
	"errors"
	"fmt"
	"math"
	"testing"

	"github.com/stag-rdma/stag/chunks"
)

func lengths(c chunks.WriteChunk) (n []uint32) {
	for i := range c {
		n = append(n, c[i].Length)
	}
	return n
}

func chunkWith(lengths ...uint32) (c chunks.WriteChunk) {
	for i, n := range lengths {
		c = append(c, chunks.Segment{chunks.Handle(i + 1), n, uint64(i+1) << 32})
	}
	return c
}

func TestFill(t *testing.T) {
	for _, c := range []struct {
		offered []uint32
		n       int
		want    []uint32 // nil: does not fit
	}{
		{[]uint32{4096, 4096}, 5000, []uint32{4096, 904}},
		{[]uint32{4096, 4096}, 8192, []uint32{4096, 4096}},
		{[]uint32{4096, 4096}, 8193, nil},
		{[]uint32{4096, 4096}, 4096, []uint32{4096, 0}},
		{[]uint32{4096, 4096}, 0, []uint32{0, 0}},
		{[]uint32{124, 904, 4}, 1028, []uint32{124, 904, 0}},
		{[]uint32{5001, 4}, 5001, []uint32{5001, 0}}, // room for pad, own segment
		{[]uint32{5004}, 5001, []uint32{5001}},       // room for pad, same segment
		{[]uint32{0, 10, 0, 10}, 15, []uint32{0, 10, 0, 5}},
		{[]uint32{}, 0, []uint32{}},
		{[]uint32{}, 1, nil},
		{[]uint32{0xffffffff, 0xffffffff}, 10, []uint32{10, 0}},
	} {
		t.Run(fmt.Sprint(c.offered, c.n), func(t *testing.T) {
			got := chunkWith(c.offered...)
			err := got.Fill(c.n)
			if c.want == nil {
				if !errors.Is(err, chunks.ErrNoRoom) || fmt.Sprint(lengths(got)) != fmt.Sprint(c.offered) {
					t.Errorf("error %v, lengths %v; want ErrNoRoom and nothing changed", err, lengths(got))
				}
				return
			}
			if err != nil || fmt.Sprint(lengths(got)) != fmt.Sprint(c.want) {
				t.Errorf("error %v, lengths %v, want %v", err, lengths(got), c.want)
			}
			if n, err := chunks.Returned(chunkWith(c.offered...), got); err != nil || n != c.n {
				t.Errorf("the requester sees %d octets, %v; want %d", n, err, c.n)
			}
		})
	}
}

// TestRoom: sums of 32-bit lengths do not wrap, and Clear leaves all but these.
func TestRoom(t *testing.T) {
	c := chunks.WriteChunk{{Length: math.MaxUint32}, {Length: math.MaxUint32}, {1, 2, 3}}
	if got := c.Room(); got != 1<<33 {
		t.Errorf("room = %d, want 2^33", got)
	}
	if c.Clear(); c.Room() != 0 || c[2] != (chunks.Segment{1, 0, 3}) {
		t.Errorf("cleared chunk = %+v", c)
	}
}

func TestAppendWriteIsAppendWrites(t *testing.T) {
	data := ramp(30, 1)
	for _, shape := range [][]uint32{{30}, {7, 23}, {0, 30}, {10, 10, 10}, {30, 4}, {3, 5}} {
		c := chunkWith(shape...)
		_ = c.Fill(min(30, int(c.Room())))
		one := chunks.AppendWrite(nil, c, data)
		many := chunks.AppendWrites(nil, c, [][]byte{data[:11], nil, data[11:]})
		if join(one) != join(many) {
			t.Errorf("%v: %v and %v", shape, one, many)
		}
	}
	if w := chunks.AppendWrites(nil, chunkWith(10), nil); len(w) != 0 {
		t.Errorf("writes of nothing: %v", w)
	}
}

// join renders writes so that a cut inside a segment does not show.
func join(ws []chunks.Write) string {
	m := map[string]string{}
	for _, w := range ws {
		for i, b := range w.Data {
			m[fmt.Sprintf("%v+%d", w.Handle, w.Offset+uint64(i))] = fmt.Sprint(b)
		}
	}
	return fmt.Sprint(m)
}

func TestReturned(t *testing.T) {
	offered := chunkWith(100, 50, 4)
	for _, c := range []struct {
		name string
		got  chunks.WriteChunk
		want int // -1: refused
	}{
		{"as offered", chunkWith(100, 50, 4), 154},
		{"used in part", chunkWith(100, 7, 0), 107},
		{"unused", chunkWith(0, 0, 0), 0},
		{"one segment less", chunkWith(100, 50), -1},
		{"one segment more", chunkWith(100, 50, 4, 0), -1},
		{"a length grew", chunkWith(100, 51, 0), -1},
		{"a gap", chunkWith(99, 1, 0), -1},
		{"first segment left out", chunkWith(0, 50, 0), -1},
		{"another handle", func() chunks.WriteChunk { c := chunkWith(1, 0, 0); c[2].Handle++; return c }(), -1},
		{"another offset", func() chunks.WriteChunk { c := chunkWith(1, 0, 0); c[0].Offset--; return c }(), -1},
	} {
		n, err := chunks.Returned(offered, c.got)
		if c.want < 0 {
			if !errors.Is(err, chunks.ErrReturned) {
				t.Errorf("%s: %d, %v; want ErrReturned", c.name, n, err)
			}
		} else if n != c.want || err != nil {
			t.Errorf("%s: %d, %v; want %d", c.name, n, err, c.want)
		}
	}
	// A segment offered without octets does not end the run of full ones, nor hide a gap.
	empty := chunkWith(2, 0, 2)
	if n, err := chunks.Returned(empty, chunkWith(2, 0, 1)); n != 3 || err != nil {
		t.Errorf("over an empty segment: %d, %v", n, err)
	}
	if n, err := chunks.Returned(empty, chunkWith(1, 0, 1)); !errors.Is(err, chunks.ErrReturned) {
		t.Errorf("a gap around an empty segment: %d, %v", n, err)
	}
}
