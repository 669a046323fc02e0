//go:build !purego

package crc32c

import "testing"

func TestDetect(t *testing.T) {
	t.Log("folds:", folds)
	const all, none = ^uint32(0), uint32(0)
	for name, tt := range map[string]struct {
		top, c1, b7, c7, xcr0 uint32
		want                  bool
	}{
		"all":               {7, all, all, all, all, true},
		"just what it uses": {7, 1<<20 | 1<<27, 1<<5 | 1<<16, 1 << 10, 0xe6, true},
		"no leaf 7":         {6, all, all, all, all, false},
		"no CRC32":          {7, all &^ (1 << 20), all, all, all, false},
		"no XGETBV":         {7, all &^ (1 << 27), all, all, none, false},
		"no AVX2":           {7, all, all &^ (1 << 5), all, all, false},
		"no AVX-512":        {7, all, all &^ (1 << 16), all, all, false},
		"no VPCLMULQDQ":     {7, all, all, all &^ (1 << 10), all, false},
		"ZMM not kept":      {7, all, all, all, 0x07, false},
		"half of ZMM kept":  {7, all, all, all, 0x67, false},
	} {
		got := detect(func(leaf, _ uint32) (a, b, c, d uint32) {
			switch leaf {
			case 0:
				return tt.top, none, none, none
			case 1:
				return none, none, tt.c1, none
			}
			return none, tt.b7, tt.c7, none
		}, func() uint32 {
			if tt.c1&(1<<27) == 0 {
				t.Errorf("%s: XGETBV was executed, which does not exist without OSXSAVE", name)
			}
			return tt.xcr0
		})
		if got != tt.want {
			t.Errorf("%s: %v, want %v", name, got, tt.want)
		}
	}
}

// Without the instructions Update is hash/crc32.
func TestUpdateWithout(t *testing.T) {
	defer func(was bool) { folds = was }(folds)
	folds = false
	for n := range 1000 {
		check(t, uint32(n), octets(6, n))
		checkFour(t, octets(6, 4*n), n, n)
	}
}

// A key of distance d holds x^(8d+63) and x^(8d-1), here by long division of the one
// polynomial of RFC 5044 Section 4.4, most significant bit first.
func TestKeys(t *testing.T) {
	power := func(n int) (reflected uint64) {
		r := uint64(1)
		for range n {
			if r <<= 1; r>>32 == 1 {
				r ^= 0x11edc6f41
			}
		}
		for i := range 32 {
			reflected |= r >> i & 1 << (63 - i)
		}
		return reflected
	}
	for i, d := range distances {
		want := foldKey{power(8*d + 63), power(8*d - 1)}
		if keys[i] != want {
			t.Errorf("%d octets: %#x, want %#x", d, keys[i], want)
		}
	}
	if last := keys[len(distances)]; last != (foldKey{}) {
		t.Errorf("the last key is %#x, want zeros", last)
	}
}
