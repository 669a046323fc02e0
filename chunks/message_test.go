package chunks_test

import (
	"bytes"
	"errors"
	"testing"

	"github.com/stag-rdma/stag/chunks"
)

// build makes a whole stream with items at the given positions, and the same
// with the items missing.
func build(head, body []byte, items []chunks.Item) (whole, reduced chunks.Message) {
	all := append(bytes.Clone(head), body...)
	var stripped []byte
	from, kept := 0, 0
	for _, it := range items {
		stripped = append(stripped, all[from:it.Pos]...)
		if it.Pos <= len(head) {
			kept = len(stripped)
		}
		from = it.Pos + (len(it.Data)+3)&^3
	}
	stripped = append(stripped, all[from:]...)
	whole = chunks.Message{Head: head, Body: body, Items: items, Whole: true}
	reduced = chunks.Message{Head: stripped[:kept], Body: stripped[kept:], Items: items}
	return whole, reduced
}

func TestMessageReduce(t *testing.T) {
	// xid … count | data pad | word, count | data | word
	stream := unhex(t, `01020304 00000005 6162636465 000000 11111111 00000004 66676869 22222222`)
	items := []chunks.Item{{8, stream[8:13]}, {24, stream[24:28]}}
	for _, split := range []int{0, 4, 8, 20, len(stream)} {
		for _, c := range []struct {
			out  chunks.Set
			want string
		}{
			{0, "01020304 00000005 6162636465 000000 11111111 00000004 66676869 22222222"},
			{chunks.Set(0).With(0), "01020304 00000005 11111111 00000004 66676869 22222222"},
			{chunks.Set(0).With(1), "01020304 00000005 6162636465 000000 11111111 00000004 22222222"},
			{chunks.Set(0).With(0).With(1), "01020304 00000005 11111111 00000004 22222222"},
		} {
			want := unhex(t, c.want)
			whole, reduced := build(stream[:split], stream[split:], items)
			for name, m := range map[string]chunks.Message{"whole": whole, "reduced": reduced} {
				if err := m.Check(); err != nil {
					t.Fatalf("%s, split %d: %v", name, split, err)
				}
				if got := m.Append(nil, c.out); !bytes.Equal(got, want) {
					t.Errorf("%s, split %d, out %b\n got %x\nwant %x", name, split, c.out, got, want)
				}
				if got := m.ReducedLen(c.out); got != len(want) {
					t.Errorf("%s, split %d, out %b: length %d, want %d", name, split, c.out, got, len(want))
				}
				if got := m.Len(); got != len(stream) {
					t.Errorf("%s: length %d, want %d", name, got, len(stream))
				}
			}
		}
	}
}

func TestMessageCheck(t *testing.T) {
	body := make([]byte, 32)
	for _, c := range []struct {
		name  string
		whole bool
		items []chunks.Item
		ok    bool
	}{
		{"none", true, nil, true},
		{"at the end", true, []chunks.Item{{28, body[:4]}}, true},
		{"pad beyond the end", true, []chunks.Item{{30, body[:1]}}, false},
		{"beyond the end", true, []chunks.Item{{32, body[:1]}}, false},
		{"position 0", true, []chunks.Item{{0, body[:4]}}, false},
		{"unaligned", true, []chunks.Item{{6, body[:4]}}, false},
		{"negative", true, []chunks.Item{{-4, body[:4]}}, false},
		{"overlap", true, []chunks.Item{{8, body[:5]}, {12, body[:4]}}, false},
		{"adjacent", true, []chunks.Item{{8, body[:5]}, {16, body[:4]}}, true},
		{"descending", true, []chunks.Item{{16, body[:4]}, {8, body[:4]}}, false},
		{"missing item at the end", false, []chunks.Item{{32, body[:7]}}, true},
		{"missing item beyond the end", false, []chunks.Item{{36, body[:7]}}, false},
		{"two missing items", false, []chunks.Item{{8, body[:5]}, {40, body[:8]}}, true},
		{"second beyond the end", false, []chunks.Item{{8, body[:5]}, {44, body[:8]}}, false},
		{"second in range only with its own data", false, []chunks.Item{{4, body[:4]}, {40, body[:32]}}, false},
	} {
		m := chunks.Message{Body: body, Items: c.items, Whole: c.whole}
		if err := m.Check(); (err == nil) != c.ok || err != nil && !errors.Is(err, chunks.ErrItem) {
			t.Errorf("%s: error %v, want ok = %v", c.name, err, c.ok)
		}
	}
}

func TestSet(t *testing.T) {
	s := chunks.Set(0).With(3).With(63).With(64).With(1000)
	for i := range 70 {
		if want := i == 3 || i == 63; s.Has(i) != want {
			t.Errorf("Has(%d) = %v", i, !want)
		}
	}
}
