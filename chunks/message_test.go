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
