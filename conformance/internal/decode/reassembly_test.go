package decode

import (
	"bytes"
	"fmt"
	"testing"

	"pgregory.net/rapid"
)

// stringSink collects what an assembler delivers; holes are written as "<n>".
type stringSink struct{ bytes.Buffer }

func (s *stringSink) octets(b []byte, _ Stamp)                 { s.Write(b) }
func (s *stringSink) hole(n int, _ Stamp)                      { fmt.Fprintf(s, "<%d>", n) }
func (s *stringSink) conflict(n int, _ []byte, _ int, _ Stamp) { fmt.Fprintf(s, "!%d!", n) }

// push takes a segment like a flow of one direction, and finish the rest.
func (a *assembler) push(seq uint32, b []byte, to sink) {
	if now, later := a.place(seq, b); now {
		a.deliver(seq, b, Stamp{}, to)
	} else if later {
		a.keep(earlyData{seq: seq, b: b})
	}
	a.drain(a.limit, to)
}

func (a *assembler) drain(limit int, to sink) {
	for a.ready() || len(a.early) > 0 && a.held > limit {
		if !a.ready() {
			a.skip(a.early[0].seq, Stamp{}, to)
		}
		a.shift(to)
	}
}

func (a *assembler) finish(to sink) { a.drain(-1, to) }

func TestAssembler(t *testing.T) {
	type seg struct {
		seq uint32
		b   string
	}
	for _, tt := range []struct {
		name  string
		limit int
		segs  []seg
		want  string
	}{
		{"in order", 10000, []seg{{0, "abc"}, {3, "def"}}, "abcdef"},
		{"empty", 10000, []seg{{0, ""}, {0, "abc"}, {3, ""}}, "abc"},
		{"swapped", 10000, []seg{{0, "a"}, {4, "ef"}, {1, "bcd"}}, "abcdef"},
		{"retransmitted", 10000, []seg{{0, "abc"}, {0, "abc"}, {3, "def"}, {0, "abcdef"}}, "abcdef"},
		{"retransmitted in larger pieces", 10000, []seg{{0, "ab"}, {4, "ef"}, {0, "abcdefg"}}, "abcdefg"},
		{"early twice", 10000, []seg{{0, "a"}, {2, "c"}, {2, "cd"}, {2, "c"}, {1, "b"}}, "abcd"},
		{"overlap on both sides", 10000, []seg{{0, "abc"}, {6, "ghi"}, {2, "cdefgh"}}, "abcdefghi"},
		{"keep-alive probe", 10000, []seg{{0, "abc"}, {2, "x"}, {3, "def"}}, "abcdef"},
		{"hole at the end", 10000, []seg{{0, "abc"}, {5, "fgh"}, {9, "j"}}, "abc<2>fgh<1>j"},
		{"limit", 3 + earlyCost, []seg{{0, "abc"}, {5, "fgh"}, {9, "j"}, {10, "k"}}, "abc<2>fgh<1>jk"},
		{"first segment decides", 10000, []seg{{7, "abc"}, {10, "d"}}, "abcd"},
		{"far ahead, far behind, exactly between", 10000, []seg{{0, "a"}, {1<<30 + 2, "x"}, {1<<31 + 2, "x"}, {1<<31 + 1, "x"}, {1, "b"}}, "ab"},
		{"sent again otherwise", 10000, []seg{{0, "abcdef"}, {0, "abXdeY"}}, "abcdef!2!"},
		{"sent again in part, otherwise", 10000, []seg{{0, "abcdef"}, {4, "Xfgh"}}, "abcdef!1!gh"},
		{"sent again otherwise, both early", 10000, []seg{{0, "a"}, {2, "cd"}, {2, "cX"}, {3, "Yef"}, {1, "b"}}, "abcX!1!!1!ef"},
		{"wrap", 10000, []seg{{0xfffffffe, "ab"}, {2, "ef"}, {0, "cd"}}, "abcdef"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			a := assembler{limit: tt.limit}
			var out stringSink
			for _, s := range tt.segs {
				a.push(s.seq, []byte(s.b), &out)
			}
			a.finish(&out)
			if out.String() != tt.want || a.held != 0 || len(a.early) != 0 {
				t.Errorf("%q, %d octets held; want %q", out.String(), a.held, tt.want)
			}
		})
	}
}

// TestAssemblerAnyOrder: however a stream is cut, repeated and shuffled, it comes out unchanged.
func TestAssemblerAnyOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := rapid.SliceOfN(rapid.Byte(), 1, 300).Draw(t, "stream")
		isn := rapid.Uint32().Draw(t, "isn")
		type cut struct{ from, to int }
		var cuts []cut
		for at := 0; at < len(want); { // pieces that cover the stream
			n := rapid.IntRange(1, 40).Draw(t, "n")
			back := rapid.IntRange(0, min(at, 10)).Draw(t, "back")
			cuts = append(cuts, cut{at - back, min(at+n, len(want))})
			at += n
		}
		for range rapid.IntRange(0, 5).Draw(t, "repeats") {
			cuts = append(cuts, rapid.SampledFrom(cuts).Draw(t, "again"))
		}
		a := assembler{limit: 1 << 20}
		a.sync(isn)
		var out stringSink
		for _, c := range rapid.Permutation(cuts).Draw(t, "order") {
			a.push(isn+uint32(c.from), want[c.from:c.to], &out)
		}
		if !bytes.Equal(out.Bytes(), want) || a.held != 0 {
			t.Fatalf("%x, %d held; want %x", out.Bytes(), a.held, want)
		}
	})
}

func TestAssemblerMissing(t *testing.T) {
	a := assembler{limit: 10000}
	var out stringSink
	a.push(0, []byte("abc"), &out)
	a.missing(4, Stamp{}, &out)
	a.push(7, []byte("hij"), &out)
	a.missing(0, Stamp{}, &out)
	if got := out.String(); got != "abc<4>hij" {
		t.Error(got)
	}
}
