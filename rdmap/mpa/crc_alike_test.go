package mpa_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/stag-rdma/stag/rdmap/mpa"
)

// run returns n FPDUs around ULPDUs of size octets each.
func run(rnd *rand.Rand, n, size int) (stream []byte, ulpdus [][]byte) {
	for range n {
		u := make([]byte, size)
		for i := range u {
			u[i] = byte(rnd.Uint32())
		}
		ulpdus = append(ulpdus, u)
		stream = mpa.AppendFPDU(stream, u, true)
	}
	return stream, ulpdus
}

// FPDUs that are summed side by side have the CRCs that AppendFPDU gives them, for every length around
// the longest one that is summed so, and whatever comes before and after them.
func TestWriteCRCs(t *testing.T) {
	rnd := rand.New(rand.NewPCG(7, 8))
	for size := range 230 {
		for _, n := range []int{1, 3, 4, 5, 8, 11} {
			want, _ := run(rnd, n, size)
			for _, other := range []int{0, size, size + 1, 300} {
				b, _ := run(rnd, 1, other)
				want = append(want, b...)
			}
			b := bytes.Clone(want)
			for rest := b; len(rest) > 0; {
				k := mpa.FPDULen(int(binary.BigEndian.Uint16(rest)))
				clear(rest[k-mpa.CRCLen : k])
				rest = rest[k:]
			}
			if mpa.WriteCRCs(b); !bytes.Equal(b, want) {
				t.Fatalf("%d FPDUs of %d octets: got %x, want %x", n, size, b, want)
			}
		}
	}
}

// If the k-th FPDU of a run of FPDUs alike is damaged, the k-1 before it are returned, and then an error
// with the CRC that it has and the one that it should have.
func TestRunDamaged(t *testing.T) {
	rnd := rand.New(rand.NewPCG(9, 10))
	for _, size := range []int{0, 1, 20, 82, 150, 190, 191, 200} {
		n := mpa.FPDULen(size)
		for k := range 9 {
			for range 20 {
				stream, ulpdus := run(rnd, 9, size)
				at := k*n + mpa.HeaderLen + rnd.IntN(n-mpa.HeaderLen)
				stream[at] ^= 1 << rnd.IntN(8)
				got, rest, err := deframe(stream, true, func() int { return len(stream) })
				if !equal(got, ulpdus[:k]) || !bytes.Equal(rest, stream[k*n:]) {
					t.Fatalf("%d octets, octet %d: %d ULPDUs, %d octets left", size, at, len(got), len(rest))
				}
				e, ok := errors.AsType[*mpa.Error](err)
				if !ok || e.Code != mpa.CodeCRC || e.Got != mpa.ReadCRC(rest[n-mpa.CRCLen:]) || e.Want != mpa.UpdateCRC(0, rest[:n-mpa.CRCLen]) {
					t.Fatalf("%d octets, octet %d: %v", size, at, err)
				}
			}
		}
	}
}

// A sum made ahead is not used for an FPDU that is passed again, or read in pieces.
func TestRunShownAgain(t *testing.T) {
	rnd := rand.New(rand.NewPCG(11, 12))
	stream, _ := run(rnd, 5, 82)
	n := mpa.FPDULen(82)
	d := mpa.Deframer{CRC: true}
	for range 5 {
		if _, k, err := d.Next(stream); k != n || err != nil {
			t.Fatal(k, err)
		}
	}
	stream[5*n-1] ^= 1
	for i := range 4 {
		if _, k, err := d.Next(stream[i*n:]); k != n || err != nil {
			t.Fatal(i, k, err)
		}
	}
	if _, _, err := d.Next(stream[4*n:]); err == nil {
		t.Error("the damaged FPDU was not found")
	}

	d = mpa.Deframer{CRC: true}
	_, _, _ = d.Next(stream)
	if err := d.Finish(mpa.UpdateCRC(0, stream[n:2*n-mpa.CRCLen-mpa.PadLen(82)]), stream[2*n-mpa.TrailerLen(82):2*n]); err != nil {
		t.Fatal(err)
	}
	bad := bytes.Clone(stream[2*n : 3*n])
	bad[30] ^= 4
	if _, _, err := d.Next(bad); err == nil {
		t.Error("an FPDU after one that was read in pieces was not checked")
	}
}
