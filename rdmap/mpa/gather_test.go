package mpa

import (
	"bytes"
	"testing"

	"pgregory.net/rapid"
)

func TestGatherEntries(t *testing.T) {
	var g Gather
	g.Reset(make([]byte, 0, 256), nil, true)
	a, b := ramp(0, 1, 5), ramp(9, 3, 8)
	g.FPDU([]byte("header-0"), a)
	g.FPDU([]byte("header-1"), b)
	g.FPDU([]byte("empty"), nil)
	g.Stage([]byte("staged"), []byte("xyz"))
	bufs := g.Buffers()
	// [len|hdr] [a] [pad|CRC|len|hdr] [b] [pad|CRC|empty FPDU|staged FPDU]
	if len(bufs) != 5 {
		t.Fatalf("%d entries, want 5", len(bufs))
	}
	if &bufs[1][0] != &a[0] || &bufs[3][0] != &b[0] {
		t.Error("payload copied")
	}
	var want []byte
	for _, u := range []string{"header-0" + string(a), "header-1" + string(b), "empty", "stagedxyz"} {
		want = AppendFPDU(want, []byte(u), true)
	}
	if got := bytes.Join(bufs, nil); !bytes.Equal(got, want) {
		t.Errorf("got  %x\nwant %x", got, want)
	}
	if g.Len() != len(want) {
		t.Errorf("Len = %d, want %d", g.Len(), len(want))
	}
}

func TestGatherProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		crc := rapid.Bool().Draw(t, "crc")
		var g Gather
		g.Reset(dirty(4096), make([][]byte, 0, 4), crc)
		var want []byte
		for range rapid.IntRange(0, 8).Draw(t, "fpdus") {
			hdr := rapid.SliceOfN(rapid.Byte(), 0, 18).Draw(t, "hdr")
			payload := rapid.SliceOfN(rapid.Byte(), 0, 50).Draw(t, "payload")
			if g.Room() < len(hdr)+len(payload)+GatherOverhead {
				break
			}
			switch rapid.IntRange(0, 2).Draw(t, "how") {
			case 0:
				g.Stage(hdr, payload)
			case 1:
				g.Buffers() // closing an entry early changes nothing on the wire
				fallthrough
			default:
				g.FPDU(hdr, payload)
			}
			want = AppendFPDU(want, append(bytes.Clone(hdr), payload...), crc)
		}
		if got := bytes.Join(g.Buffers(), nil); !bytes.Equal(got, want) {
			t.Fatalf("got  %x\nwant %x", got, want)
		}
		if g.Len() != len(want) {
			t.Fatalf("Len = %d, want %d", g.Len(), len(want))
		}
	})
}

func TestGatherFull(t *testing.T) {
	for _, stage := range []bool{false, true} {
		var g Gather
		g.Reset(make([]byte, 0, 20), nil, true)
		defer func() {
			if recover() == nil {
				t.Error("no panic")
			}
		}()
		if stage {
			g.Stage(make([]byte, 8), make([]byte, 4))
		} else {
			g.FPDU(make([]byte, 12), nil)
		}
	}
}
