package chunks_test

import (
	"fmt"
	"testing"

	"github.com/stag-rdma/stag/chunks"
	"github.com/stag-rdma/stag/xdr"
)

// Numbers of RFC 7530.
const (
	nfsProgram   = 100003
	procCompound = 1
	opRead       = 25
)

// TestLister finds the data of all WRITEs of a COMPOUND, whether they are there or not, and
// nothing of version 3, whose calls have one item at most.
func TestLister(t *testing.T) {
	if chunks.ListerOf(chunks.NFS, nfsProgram, 3) != nil || chunks.ListerOf(chunks.NFSv3, nfsProgram, 3) != nil {
		t.Error("version 3 has a list")
	}
	l := chunks.ListerOf(chunks.NFS, nfsProgram, 4)
	if l == nil {
		t.Fatal("version 4 has none")
	}
	for gone := range 4 { // a bit for each of the two
		b := []byte{11: 3} // tag, minor version, operations
		var want []int
		for i := range 2 {
			b = append(xdr.AppendUint32(b, 38), make([]byte, 16+8+4)...)
			b = xdr.AppendUint32(b, 5)
			if want = append(want, len(b)); gone&(1<<i) == 0 {
				b = append(b, make([]byte, 8)...)
			}
		}
		b = xdr.AppendUint32(b, 10) // GETFH
		var got []int
		ok := l.ListArgs(nfsProgram, 4, procCompound, b, func(pos, n int) int {
			got = append(got, pos)
			if gone&(1<<(len(got)-1)) != 0 {
				return 0
			}
			return n + xdr.Pad(n)
		})
		if !ok || fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%d: %v, %d, want %d", gone, ok, got, want)
		}
		if l.ListArgs(nfsProgram, 4, procCompound, b, func(_, _ int) int { return -1 }) {
			t.Error("a walk that was ended")
		}
	}
	results := []byte{11: 2} // status, tag, operations
	var want []int
	for range 2 { // READ: status, eof, count; the data elsewhere
		results = append(xdr.AppendUint32(results, opRead), make([]byte, 8)...)
		results = xdr.AppendUint32(results, 70_000)
		want = append(want, len(results))
	}
	var got []int
	ok := l.ListResults(nfsProgram, 4, procCompound, results, func(pos, _ int) int {
		got = append(got, pos)
		return 0
	})
	if !ok || fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%v, %d, want %d", ok, got, want)
	}
	if !l.ListArgs(nfsProgram, 4, 0, nil, nil) || !l.ListResults(nfsProgram, 4, 0, nil, nil) {
		t.Error("NULL has no items")
	}
}
