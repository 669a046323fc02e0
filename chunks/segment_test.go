package chunks_test

import (
	"bytes"
	"errors"
	"math"
	"testing"

	"github.com/stag-rdma/stag/chunks"
	"github.com/stag-rdma/stag/xdr"
)

func TestSegmentWire(t *testing.T) {
	want := unhex(t, "a1a1a1a1 00001000 0000000200010000")
	s := chunks.Segment{0xa1a1a1a1, 4096, 0x2_0001_0000}
	if got := s.Append(nil); !bytes.Equal(got, want) {
		t.Errorf("segment = %x, want %x", got, want)
	}
	r := chunks.ReadSegment{96, s}
	if got, want := r.Append(nil), append(unhex(t, "00000060"), want...); !bytes.Equal(got, want) {
		t.Errorf("read segment = %x, want %x", got, want)
	}
	if l, err := decoded(&chunks.Lists{Read: []chunks.ReadSegment{r}, Reply: chunks.WriteChunk{s}, HasReply: true}, &chunks.Limits{MaxOctets: 1 << 30}); err != nil || l.Read[0] != r || l.Reply[0] != s {
		t.Errorf("decoded %+v, %v, want %+v", l, err, s)
	}
}

// decoded returns the lists as a peer reads them.
func decoded(l *chunks.Lists, lim *chunks.Limits) (got chunks.Lists, err error) {
	d := xdr.NewDecoder(l.Append(nil))
	err = got.Decode(&d, lim)
	return got, err
}

func TestSegmentWraps(t *testing.T) {
	for _, c := range []struct {
		off  uint64
		n    uint32
		want bool
	}{
		{0, 0, false},
		{math.MaxUint64, 0, false},
		{math.MaxUint64, 1, true},
		{math.MaxUint64 - math.MaxUint32, math.MaxUint32, false},
		{math.MaxUint64 - math.MaxUint32 + 1, math.MaxUint32, true},
	} {
		_, err := decoded(&chunks.Lists{Read: []chunks.ReadSegment{{Position: 4, Segment: chunks.Segment{Offset: c.off, Length: c.n}}}}, nil)
		if errors.Is(err, chunks.ErrWrap) != c.want {
			t.Errorf("offset %#x length %#x: %v; wraps: %v", c.off, c.n, err, c.want)
		}
	}
}

func TestWriteChunkWire(t *testing.T) {
	c := chunks.WriteChunk{{0xb1, 4096, 0x30000}, {0xb2, 904, 0x40000}}
	want := unhex(t, "00000002 000000b1 00001000 0000000000030000 000000b2 00000388 0000000000040000")
	if got := c.Append(nil); !bytes.Equal(got, want) || c.Size() != len(want) {
		t.Errorf("chunk = %x (size %d), want %x", got, c.Size(), want)
	}
	if got := c.Room(); got != 5000 {
		t.Errorf("room = %d, want 5000", got)
	}
	big := chunks.WriteChunk{{Length: math.MaxUint32}, {Length: math.MaxUint32}, {Length: 2}}
	if got := big.Room(); got != 1<<33 {
		t.Errorf("room = %d, want 2^33: sums must not wrap", got)
	}
	c.Clear()
	if c.Room() != 0 || c[1].Handle != 0xb2 || c[1].Offset != 0x40000 {
		t.Errorf("cleared chunk = %+v, want lengths 0 and the rest as it was", c)
	}
}
