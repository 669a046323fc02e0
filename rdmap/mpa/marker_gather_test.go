package mpa

import "testing"

func TestGatherMarkedEntries(t *testing.T) {
	var m Inserter
	var g Gather
	g.ResetMarked(make([]byte, 0, 256), nil, true, &m)
	p := ramp(0, 1, 1000)
	g.FPDU([]byte("18 octets of heade"), p)
	g.FPDU([]byte("18 octets of heade"), nil)
	var lens []int
	for _, b := range g.Buffers() {
		lens = append(lens, len(b))
	}
	// [marker|len|hdr] 488 of payload [marker] 508 [marker] 4 [pad|CRC|whole FPDU]
	want := []int{24, 488, 4, 508, 4, 4, 4 + 24}
	for i := range want {
		if len(lens) != len(want) || lens[i] != want[i] {
			t.Fatalf("entries of %v octets, want %v", lens, want)
		}
	}
	bufs := g.Buffers()
	if &bufs[1][0] != &p[0] || &bufs[3][0] != &p[488] || &bufs[5][0] != &p[996] {
		t.Error("payload copied")
	}
	g.Reset(make([]byte, 0, 64), nil, true)
	g.FPDU([]byte("plain"), nil)
	if g.Len() != FPDULen(5) {
		t.Error("markers after Reset")
	}
}
