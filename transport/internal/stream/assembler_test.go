package stream_test

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/stag-rdma/stag/transport/internal/stream"
	"github.com/stag-rdma/stag/xdr"
)

// fragments makes a stream of records cut into fragments of odd sizes.
func fragments(records [][]byte, rnd *rand.Rand) (octets []byte) {
	for _, r := range records {
		for first := true; first || len(r) > 0; first = false {
			n := rnd.IntN(len(r) + 1)
			if rnd.IntN(2) == 0 {
				n = len(r)
			}
			octets = xdr.AppendRecordMark(octets, n, n == len(r))
			octets = append(octets, r[:n]...)
			if r = r[n:]; len(r) == 0 {
				break
			}
		}
	}
	return octets
}

// TestAssembler writes streams in random pieces: the same records come out.
func TestAssembler(t *testing.T) {
	const seed = 11
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 0))
	for range 200 {
		var want [][]byte
		for range rnd.IntN(5) + 1 {
			want = append(want, filled(rnd.IntN(9000)))
		}
		octets := fragments(want, rnd)
		a := stream.Assembler{Max: 9000}
		var got [][]byte
		for len(octets) > 0 {
			piece := octets[:rnd.IntN(min(len(octets), 6000))+1]
			octets = octets[len(piece):]
			got = append(got, assemble(t, &a, piece)...)
		}
		if len(got) != len(want) {
			t.Fatalf("%d records, want %d", len(got), len(want))
		}
		for i := range got {
			if !bytes.Equal(got[i], want[i]) {
				t.Fatalf("record %d: %d octets, want %d", i, len(got[i]), len(want[i]))
			}
		}
		a.Drop()
	}
}

// assemble feeds one piece and returns the records it completes.
func assemble(t testing.TB, a *stream.Assembler, piece []byte) (got [][]byte) {
	t.Helper()
	for len(piece) > 0 {
		n, rec, err := a.Add(piece)
		if err != nil || n <= 0 || n > len(piece) {
			t.Fatalf("add: %d of %d octets, %v", n, len(piece), err)
		}
		piece = piece[n:]
		if rec != nil {
			got = append(got, append([]byte(nil), rec.Bytes()...))
			rec.Buf.Release()
		}
	}
	return got
}

func TestRecordTooLarge(t *testing.T) {
	for _, octets := range [][]byte{
		xdr.AppendRecordMark(nil, 101, true),
		append(xdr.AppendRecordMark(nil, 60, false), append(make([]byte, 60), xdr.AppendRecordMark(nil, 41, true)...)...),
		{0xff, 0xff, 0xff, 0xff},
	} {
		a := stream.Assembler{Max: 100}
		var err error
		for len(octets) > 0 && err == nil {
			var n int
			n, _, err = a.Add(octets)
			octets = octets[n:]
		}
		if !errors.Is(err, stream.ErrTooBig) {
			t.Errorf("error %v", err)
		}
		if n, _, again := a.Add(make([]byte, 1000)); n > 0 || again != err {
			t.Errorf("then it takes %d octets, %v", n, again)
		}
		a.Drop()
	}
}

// TestCheck: a record larger than Check allows takes no memory, and those after it come whole. Check sees the first octets
// of each once, whatever its fragments.
func TestCheck(t *testing.T) {
	rnd := rand.New(rand.NewPCG(12, 0))
	for range 200 {
		var want [][]byte
		for range rnd.IntN(5) + 1 {
			n := rnd.IntN(20)
			if rnd.IntN(2) == 0 {
				n = rnd.IntN(90_000)
			}
			want = append(want, filled(n))
		}
		octets := fragments(want, rnd)
		asked := 0
		a := stream.Assembler{Max: 90_000, Check: func(head []byte, size int) (int, error) {
			if w := want[asked]; !bytes.Equal(head, w[:min(len(w), stream.HeadSize)]) {
				t.Fatalf("record %d: Check sees %x", asked, head)
			}
			if n := len(want[asked]); size != n && size != 90_000 {
				t.Errorf("a record of %d octets has %d", n, size)
			}
			asked++
			return 3000, nil
		}}
		got := 0
		for len(octets) > 0 {
			piece := octets[:rnd.IntN(min(len(octets), 6000))+1]
			n, rec, err := a.Add(piece)
			if err != nil || n == 0 {
				t.Fatal(n, err)
			}
			octets = octets[n:]
			if rec == nil {
				continue
			}
			w := want[got]
			got++
			if cut := len(w) > 3000; rec.Cut != cut || len(rec.Buf.Data) > 4096 || !cut && !bytes.Equal(rec.Bytes(), w) {
				t.Errorf("record of %d octets: cut %v, %d octets in a buffer of %d", len(w), rec.Cut, rec.Len, len(rec.Buf.Data))
			}
			rec.Buf.Release()
		}
		if got != len(want) || asked != got {
			t.Errorf("%d records of %d, %d checked", got, len(want), asked)
		}
	}
}

// TestCheckRefuses: the error of Check ends the stream, before the record has come.
func TestCheckRefuses(t *testing.T) {
	no := errors.New("no")
	a := stream.Assembler{Max: 1 << 20, Check: func([]byte, int) (int, error) { return 0, no }}
	defer a.Drop()
	if _, _, err := a.Add(append(xdr.AppendRecordMark(nil, 1<<20, true), make([]byte, 7)...)); err != nil {
		t.Error(err)
	}
	if _, _, err := a.Add(make([]byte, 1)); err != no {
		t.Error(err)
	}
}

// FuzzAssembler checks that any octets in any pieces give the same records,
// and never more memory than the limit.
func FuzzAssembler(f *testing.F) {
	f.Add(fragments([][]byte{filled(10), filled(0), filled(77)}, rand.New(rand.NewPCG(1, 1))), uint8(7))
	f.Add([]byte{0, 0, 0, 0, 0x80, 0, 0, 1, 9}, uint8(1))
	f.Add([]byte{0x7f, 0xff, 0xff, 0xff}, uint8(3))
	f.Fuzz(func(t *testing.T, octets []byte, step uint8) {
		one, n1 := drainRecords(octets, len(octets)+1)
		two, n2 := drainRecords(octets, int(step)+1)
		if n1 != n2 || !bytes.Equal(one, two) {
			t.Errorf("%d records in one piece, %d in pieces of %d", n1, n2, int(step)+1)
		}
	})
}

// drainRecords feeds stream in pieces and returns all records' octets and their
// number.
func drainRecords(octets []byte, step int) (all []byte, n int) {
	a := stream.Assembler{Max: 4096}
	defer a.Drop()
	for len(octets) > 0 {
		piece := octets[:min(step, len(octets))]
		octets = octets[len(piece):]
		for len(piece) > 0 {
			k, rec, err := a.Add(piece)
			if err != nil {
				return all, n
			}
			piece = piece[k:]
			if rec != nil {
				all = append(all, rec.Bytes()...)
				rec.Buf.Release()
				n++
			}
		}
	}
	return all, n
}

// filled returns n octets of which any two neighbours differ.
func filled(n int) []byte {
	p := make([]byte, n)
	for i := range p {
		p[i] = byte(i*7 + i>>8)
	}
	return p
}
