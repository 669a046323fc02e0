package decode

import (
	"slices"
	"testing"

	"github.com/stag-rdma/stag/rdmap/rdmaptest"
)

// TestRecordParser: records cut anywhere, and writes that do not continue each other.
func TestRecordParser(t *testing.T) {
	record := append(rdmaptest.Hex(t, "00000005 00000002 0000000000000004 00000000000000c0 b2e736f3 68656c6c6f"), make([]byte, 31)...)
	filler := append(rdmaptest.Hex(t, "80000040 00000002 0000000000000005 0000000000000100 2b7e7197"), make([]byte, 36)...)
	b := slices.Concat(record, record, filler)
	for cut := range len(b) {
		p := recordParser{epoch: 2, salt: 0xee6e64bd81f7bc7f, salted: true}
		var got []CommitRecord
		write := func(at int, b []byte) {
			ev := &Event{DDP: &DDP{Payload: b}}
			ev.DDP.TO = uint64(at)
			got = append(got, p.write(ev)...)
		}
		write(832, b[:cut])
		write(832+cut, b[cut:])
		if len(got) != 3 || !got[0].SumOK || !got[1].SumOK || !got[2].SumOK || !got[2].Filler || got[2].Len != 64 || got[2].Offset != 960 {
			t.Fatalf("cut at %d: %+v", cut, got)
		}
		got = nil
		write(64, b[:cut])
		write(128+cut, b[cut:]) // a gap
		if len(got) > 3 || cut%64 != 0 && len(got) > cut/64+1 {
			t.Fatalf("with a gap at %d: %+v", cut, got)
		}
	}
}
