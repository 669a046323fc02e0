package xdr_test

import (
	"bytes"
	"encoding/hex"
	"errors"
	"io"
	"os"
	"testing"
	"testing/iotest"

	"github.com/stag-rdma/stag/xdr"
)

func TestAppendRecordMark(t *testing.T) {
	for _, tc := range []struct {
		n    int
		last bool
		want string
	}{
		{40, true, goldenMark},
		{40, false, "00000028"},
		{0, false, "00000000"},
		{0, true, "80000000"},
		{xdr.MaxFragment, true, "ffffffff"},
	} {
		b := xdr.AppendRecordMark(dirty(8), tc.n, tc.last)
		if got := hex.EncodeToString(b); got != tc.want {
			t.Errorf("AppendRecordMark(%d, %v) = %s, want %s", tc.n, tc.last, got, tc.want)
		}
		if n, last := xdr.ParseMark(b); n != tc.n || last != tc.last {
			t.Errorf("parseMark(%s) = %d, %v", tc.want, n, last)
		}
	}
	defer func() {
		if recover() == nil {
			t.Error("a negative length was accepted")
		}
	}()
	xdr.AppendRecordMark(nil, -1, true)
}

// fragment appends p as a record cut into fragments of the sizes given, the
// rest in the last one.
func fragment(b, p []byte, sizes ...int) []byte {
	for _, n := range sizes {
		b = append(xdr.AppendRecordMark(b, n, false), p[:n]...)
		p = p[n:]
	}
	return append(xdr.AppendRecordMark(b, len(p), true), p...)
}

// pattern returns n octets that differ from place to place.
func pattern(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i) ^ byte(i>>8)
	}
	return b
}

// readers are ways the same octets may arrive.
var readers = map[string]func(io.Reader) io.Reader{
	"whole":         func(r io.Reader) io.Reader { return r },
	"octet by one":  iotest.OneByteReader,
	"half":          iotest.HalfReader,
	"end with data": iotest.DataErrReader,
}

func TestRecordsJoin(t *testing.T) {
	p := pattern(200_000)
	records := [][]byte{p[:40], {}, p[:1], p[:4096], p[:2047], p[:2048], p, p[:3]}
	var stream []byte
	for i, rec := range records {
		switch {
		case i%2 == 0 || len(rec) < 3:
			stream = fragment(stream, rec)
		default:
			stream = fragment(stream, rec, 1, 0, len(rec)-2, 0)
		}
	}
	for name, wrap := range readers {
		t.Run(name, func(t *testing.T) {
			r := xdr.NewRecordReader(wrap(bytes.NewReader(stream)), 0)
			var buf []byte
			for i, want := range records {
				got, err := r.Next(buf)
				if err != nil || !bytes.Equal(got, want) {
					t.Fatalf("record %d: %d octets, %v, want %d", i, len(got), err, len(want))
				}
				buf = got
			}
			if _, err := r.Next(buf); err != io.EOF {
				t.Errorf("at the end: %v, want io.EOF", err)
			}
		})
	}
}

// The bound counts the whole record, is checked before anything is read, and
// is final.
func TestRecordTooLarge(t *testing.T) {
	for _, tc := range []struct {
		name   string
		stream []byte
		ok     bool
	}{
		{"at the bound", fragment(nil, make([]byte, 100)), true},
		{"at the bound in three", fragment(nil, make([]byte, 100), 40, 60), true},
		{"above it", fragment(nil, make([]byte, 101)), false},
		{"above it in two", fragment(nil, make([]byte, 101), 100), false},
		{"announced only", xdr.AppendRecordMark(nil, xdr.MaxFragment, true), false},
		{"announced only, more to come", xdr.AppendRecordMark(nil, xdr.MaxFragment, false), false},
		{"sum wraps 2^32", append(append(xdr.AppendRecordMark(nil, 8, false), make([]byte, 8)...), 0xff, 0xff, 0xff, 0xff), false},
		{"16 empty fragments", fragment(nil, make([]byte, 4), make([]int, 16)...), true},
		{"17 empty fragments", fragment(nil, make([]byte, 4), make([]int, 17)...), false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := xdr.NewRecordReader(bytes.NewReader(append(tc.stream, fragment(nil, nil)...)), 100)
			_, err := r.Next(nil)
			if tc.ok {
				if err != nil {
					t.Error(err)
				}
				return
			}
			if !errors.Is(err, xdr.ErrRange) {
				t.Fatalf("error %v, want ErrRange", err)
			}
			if _, again := r.Next(nil); !errors.Is(again, xdr.ErrRange) {
				t.Errorf("a later Next returned %v", again)
			}
		})
	}
}

func TestRecordCut(t *testing.T) {
	stream := fragment(nil, pattern(5000), 3, 2400)
	for n := range stream {
		r := xdr.NewRecordReader(bytes.NewReader(stream[:n]), 0)
		want := io.ErrUnexpectedEOF
		if n == 0 {
			want = io.EOF
		}
		if _, err := r.Next(nil); !errors.Is(err, want) {
			t.Fatalf("cut at %d: %v, want %v", n, err, want)
		}
	}
}

// script is a reader that returns one step for each call.
type script []func(p []byte) (int, error)

func (s *script) Read(p []byte) (int, error) {
	f := (*s)[0]
	*s = (*s)[1:]
	return f(p)
}

func give(b []byte) func(p []byte) (int, error) {
	return func(p []byte) (int, error) { return copy(p, b), nil }
}

func fail(err error) func(p []byte) (int, error) {
	return func([]byte) (int, error) { return 0, err }
}

// A deadline between two records, even inside the first mark, loses nothing;
// one inside a record is final.
func TestRecordDeadline(t *testing.T) {
	stream := fragment(nil, []byte("abcd"))
	late := os.ErrDeadlineExceeded
	r := xdr.NewRecordReader(&script{fail(late), give(stream[:2]), fail(late), give(stream[2:]), give(stream[:5]), fail(late)}, 0)
	for range 2 {
		if _, err := r.Next(nil); !errors.Is(err, late) {
			t.Fatalf("error %v, want a deadline", err)
		}
	}
	if got, err := r.Next(nil); string(got) != "abcd" || err != nil {
		t.Fatalf("record %q, %v", got, err)
	}
	for range 2 {
		if _, err := r.Next(nil); !errors.Is(err, late) {
			t.Fatalf("error %v, want a deadline, twice", err)
		}
	}
}

func TestRecordNoProgress(t *testing.T) {
	stuck := make(script, 200)
	for i := range stuck {
		stuck[i] = fail(nil)
	}
	if _, err := xdr.NewRecordReader(&stuck, 0).Next(nil); !errors.Is(err, io.ErrNoProgress) {
		t.Errorf("error %v, want io.ErrNoProgress", err)
	}
}

func TestRecordBuffered(t *testing.T) {
	r := xdr.NewRecordReader(bytes.NewReader(append(fragment(nil, []byte("abcd")), "next"...)), 0)
	if _, err := r.Next(nil); err != nil || string(r.Buffered()) != "next" {
		t.Errorf("buffered %q, %v, want \"next\"", r.Buffered(), err)
	}
}

// A mark that announces 4 MiB, followed by a few octets, costs what came.
func TestRecordMemory(t *testing.T) {
	stream := append(xdr.AppendRecordMark(nil, xdr.DefaultMaxRecord, true), make([]byte, 1000)...)
	got := allocated(func() {
		if _, err := xdr.NewRecordReader(bytes.NewReader(stream), 0).Next(nil); !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("error %v", err)
		}
	})
	if got > 3*xdr.GrowStep {
		t.Errorf("%d octets allocated for 1,004 received", got)
	}
}
