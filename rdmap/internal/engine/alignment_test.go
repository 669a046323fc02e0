package engine_test

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"testing"

	"github.com/stag-rdma/stag/rdmap/internal/engine"
	"github.com/stag-rdma/stag/rdmap/mpa"
)

// TestAlign: whatever the FPDUs and however they come, a TCP that fills segments of emss octets from the
// beginning of each write cuts no trailer of an FPDU that fits into one, and no octet is lost or moved.
func TestAlign(t *testing.T) {
	severedBefore := 0
	for seed := range uint64(200) {
		rnd := rand.New(rand.NewPCG(seed, 18))
		emss := 536 + rnd.IntN(1000)
		w := engine.Work{}
		w.Align(emss)
		w.Batch.EndSegments()
		var want []byte
		for w.Batch.Size() < 40_000 {
			var fpdus []byte
			for range 1 + rnd.IntN(4) {
				n := 1 + rnd.IntN(mpa.MULPDU(emss, false))
				if rnd.IntN(3) == 0 {
					n = mpa.MULPDU(emss, false)
				}
				f := bytes.Repeat([]byte{byte(n)}, mpa.FPDULen(n))
				binary.BigEndian.PutUint16(f, uint16(n))
				fpdus = append(fpdus, f...)
			}
			want = append(want, fpdus...)
			r := w.Batch.Room(len(fpdus))
			copy(r.B, fpdus)
			w.AddFPDUs(r)
		}
		severedBefore += len(severedIn([][]byte{want}, emss))
		w.Batch.Begin(true)
		var writes [][]byte
		for len(w.Batch.Unwritten()) > 0 {
			p := bytes.Join(w.Batch.Next(), nil)
			writes = append(writes, p)
			w.Batch.Advance(len(p))
		}
		if got := bytes.Join(writes, nil); !bytes.Equal(got, want) {
			t.Fatalf("seed %d: other octets", seed)
		}
		if at := severedIn(writes, emss); len(at) > 0 {
			t.Fatalf("seed %d, segments of %d: trailers cut in FPDUs at %d", seed, emss, at)
		}
		w.Batch.Reset()
	}
	if severedBefore == 0 {
		t.Fatal("no trailer would have been cut without alignment: the test shows nothing")
	}
}

// severedIn returns where the FPDUs begin whose trailers lie in two segments, when each write begins a
// segment.
func severedIn(writes [][]byte, emss int) (at []int) {
	for _, w := range writes {
		for o := 0; o < len(w); {
			n := int(binary.BigEndian.Uint16(w[o:]))
			end := o + mpa.FPDULen(n)
			for k := end - mpa.TrailerLen(n) + 1; k < end; k++ {
				if k%emss == 0 {
					at = append(at, o)
				}
			}
			o = end
		}
	}
	return at
}
