package pmemtest

import (
	"testing"
)

// A store occurs after a flush has read the octets and before it ends: what the flush has read is durable, the store may
// be, and so may other octets of its line.
func TestStoreDuringFlush(t *testing.T) {
	s := NewSim(8, nil)
	_ = s.Store(0, []byte("aaaa"))
	now := s.now()
	read := []byte("aa") // of octets 0 and 1
	_ = s.Store(1, []byte("bb"))
	_ = s.Store(0, []byte("c"))

	copy(s.durable, read)
	vs := s.rebase(0, 0, read, now)
	want := []string{"aaaa\x00\x00\x00\x00", "abba\x00\x00\x00\x00", "cbba\x00\x00\x00\x00"}
	if len(vs) != len(want) {
		t.Fatalf("%d versions, want %d", len(vs), len(want))
	}
	for k, v := range vs {
		if string(v.octets) != want[k] {
			t.Errorf("version %d: %q, want %q", k, v.octets, want[k])
		}
	}
}

// The same if the flush covers the whole line.
func TestStoreDuringFlushOfLine(t *testing.T) {
	s := NewSim(8, nil)
	_ = s.Store(0, []byte("aaaaaaaa"))
	now := s.now()
	read := []byte("aaaaaaaa")
	_ = s.Store(0, []byte("b"))

	copy(s.durable, read)
	if vs := s.rebase(0, 0, read, now); len(vs) != 1 || string(vs[0].octets) != "baaaaaaa" {
		t.Errorf("%v", vs)
	}
	if vs := s.rebase(0, 0, read, s.now()); len(vs) != 0 {
		t.Errorf("%v", vs)
	}
}

func TestMask(t *testing.T) {
	for _, tt := range []struct {
		lo, hi int
		want   uint64
	}{{0, 1, 1}, {0, 64, ^uint64(0)}, {63, 64, 1 << 63}, {4, 8, 0xf0}} {
		if got := mask(tt.lo, tt.hi); got != tt.want {
			t.Errorf("mask(%d, %d) = %#x", tt.lo, tt.hi, got)
		}
	}
}
