package nfs3_test

import (
	"bytes"
	"encoding/binary"
	"runtime"
	"testing"

	"github.com/stag-rdma/stag/nfsdemo/nfs3"
	"github.com/stag-rdma/stag/xdr"
)

// hostileWords are values that a length, count or discriminator should not have.
var hostileWords = []uint32{0x00ffffff, 0x3fffffff, 0x7fffffff, 0x80000000, 0xfffffffc, 0xffffffff}

// parseCost returns how much parsing b as m allocates, including other goroutines.
func parseCost(m xdr.Message, b []byte) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	d := xdr.NewDecoder(b)
	_ = xdr.Decode(&d, m).Err()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// maxCost bounds it: lists grow by doubling, and an entry of a directory listing takes
// up to ten times the octets it has on the wire.
func maxCost(n int) uint64 { return uint64(32*n) + 256<<10 }

// TestHostileWords puts large values into every word of every message: none of them is
// believed when memory is allocated (ADVERSARY row 18).
func TestHostileWords(t *testing.T) {
	for _, r := range table {
		for off := 0; off+4 <= len(r.wire); off += 4 {
			for _, w := range hostileWords {
				b := bytes.Clone(r.wire)
				binary.BigEndian.PutUint32(b[off:], w)
				if got := parseCost(r.fresh(), b); got > maxCost(len(b)) {
					t.Errorf("%s: word at %d = %#x: %d octets allocated for %d", r.name, off, w, got, len(b))
				}
			}
		}
	}
}

// FuzzMemory parses any octets as any message within that bound.
func FuzzMemory(f *testing.F) {
	for _, r := range table {
		f.Add(uint32(r.p), r.res, r.wire)
	}
	f.Add(uint32(nfs3.ProcReadDirPlus), true, x(0, 0, 0, 0, 1, 0xffff, 0xffff, uint32(0xffffffff)))
	f.Fuzz(func(t *testing.T, proc uint32, res bool, b []byte) {
		r := row{p: nfs3.Proc(proc % nfs3.ProcCount), res: res}
		if m := r.fresh(); parseCost(m, b) > maxCost(len(b)) {
			t.Fatalf("%T: too much allocated for %d octets", m, len(b))
		}
	})
}
