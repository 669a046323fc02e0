package pmem

import (
	"bytes"
	"testing"
)

func TestDetect(t *testing.T) {
	for name, tt := range map[string]struct {
		b1, d1, top, b7 uint32
		want            int
	}{
		"no flush at all":       {b1: 8 << 8},
		"lines of 128":          {b1: 16 << 8, d1: 1 << 19, top: 7, b7: 1 << 24},
		"old":                   {b1: 8 << 8, d1: 1 << 19, top: 6, b7: 1 << 24, want: clflush},
		"no leaf 7 bits":        {b1: 8 << 8, d1: 1 << 19, top: 13, want: clflush},
		"unordered flush":       {b1: 8 << 8, d1: 1 << 19, top: 13, b7: 1 << 23, want: clflushopt},
		"write-back":            {b1: 8 << 8, d1: 1 << 19, top: 13, b7: 1 << 24, want: clwb},
		"write-back, and flush": {b1: 8 << 8, d1: 1 << 19, top: 13, b7: 3 << 23, want: clwb},
	} {
		got := detectLines(func(leaf, _ uint32) (a, b, c, d uint32) {
			switch leaf {
			case 0:
				return tt.top, 0, 0, 0
			case 1:
				return 0, tt.b1, 0, tt.d1
			}
			return 0, tt.b7, 0, 0
		})
		if got != tt.want {
			t.Errorf("%s: %d, want %d", name, got, tt.want)
		}
	}
}

// Every instruction up to the best one of this machine leaves the octets as they are.
func TestWriteBack(t *testing.T) {
	name, err := lineInstruction()
	if err != nil {
		t.Skip(err)
	}
	t.Log(name)
	defer func(was int) { lineHow = was }(lineHow)
	b := bytes.Repeat([]byte{0xa5}, 1000)
	for lineHow = detectLines(cpuid); lineHow > lineNone; lineHow-- {
		for off := range 130 {
			writeBackLines(b[off : off+off*5])
		}
	}
	for off := range 130 {
		evictLines(b[off : off+off*5])
	}
	writeBackLines(nil)
	evictLines(nil)
	if !bytes.Equal(b, bytes.Repeat([]byte{0xa5}, 1000)) {
		t.Error("octets changed")
	}
	lineHow = lineNone
	if _, err := lineInstruction(); err == nil {
		t.Error("no error without an instruction")
	}
}

func TestLines(t *testing.T) {
	for _, tt := range []struct {
		addr  uintptr
		n     int
		first uintptr
		count int
	}{
		{0, 0, 0, 0},
		{128, -1, 128, 0},
		{128, 1, 128, 1},
		{128, 64, 128, 1},
		{128, 65, 128, 2},
		{191, 1, 128, 1},
		{191, 2, 128, 2},
		{190, 68, 128, 3},
		{4096, 4096, 4096, 64},
	} {
		if first, count := lines(tt.addr, tt.n); first != tt.first || count != tt.count {
			t.Errorf("lines(%d, %d) = %d, %d, want %d, %d", tt.addr, tt.n, first, count, tt.first, tt.count)
		}
	}
}
