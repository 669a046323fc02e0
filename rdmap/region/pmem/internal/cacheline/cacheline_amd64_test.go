package cacheline

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
		got := detect(func(leaf, _ uint32) (a, b, c, d uint32) {
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
	name, err := Instruction()
	if err != nil {
		t.Skip(err)
	}
	t.Log(name)
	defer func(was int) { how = was }(how)
	b := bytes.Repeat([]byte{0xa5}, 1000)
	for how = detect(cpuid); how > none; how-- {
		for off := range 130 {
			WriteBack(b[off : off+off*5])
		}
	}
	for off := range 130 {
		Evict(b[off : off+off*5])
	}
	WriteBack(nil)
	Evict(nil)
	if !bytes.Equal(b, bytes.Repeat([]byte{0xa5}, 1000)) {
		t.Error("octets changed")
	}
	how = none
	if _, err := Instruction(); err == nil {
		t.Error("no error without an instruction")
	}
}
