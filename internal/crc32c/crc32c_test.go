package crc32c

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// octets returns n random octets, always the same for one seed.
func octets(seed uint64, n int) []byte {
	rnd := rand.New(rand.NewPCG(seed, 0))
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(rnd.Uint32())
	}
	return b
}

func check(t *testing.T, crc uint32, p []byte) {
	t.Helper()
	if got, want := Update(crc, p), update(crc, p); got != want {
		t.Fatalf("%d octets after %#08x: got %#08x, want %#08x", len(p), crc, got, want)
	}
}

// Every length up to 8 KiB, each at another alignment; the lengths at which the code takes another branch,
// at every alignment; random longer ones.
func TestUpdate(t *testing.T) {
	rnd := rand.New(rand.NewPCG(3, 4))
	b := octets(1, 2<<20)
	for n := range 8<<10 + 1 {
		check(t, rnd.Uint32(), b[n%64:][:n])
	}
	for off := range 64 {
		for n := range 1100 {
			check(t, rnd.Uint32(), b[off:][:n])
		}
	}
	for range 50 {
		off := rnd.IntN(1 << 20)
		check(t, rnd.Uint32(), b[off:][:rnd.IntN(1<<20)])
	}
}

// Every length up to 8 KiB, each at another alignment and distance; random ones.
func TestFour(t *testing.T) {
	rnd := rand.New(rand.NewPCG(5, 6))
	b := octets(7, 64<<10)
	for n := range 8<<10 + 1 {
		checkFour(t, b[n%64:], n+n%9, n)
	}
	for range 2000 {
		n := rnd.IntN(8 << 10)
		checkFour(t, b[rnd.IntN(64):], rnd.IntN(12<<10), n)
	}
	defer func() {
		if recover() == nil {
			t.Error("no panic although the last piece extends beyond the octets")
		}
	}()
	Four(b[:99], 20, 40)
}

func FuzzFour(f *testing.F) {
	f.Add(uint16(88), uint16(84), octets(5, 400))
	f.Add(uint16(0), uint16(7), octets(5, 7))
	f.Fuzz(func(t *testing.T, stride, n uint16, p []byte) {
		if 3*int(stride)+int(n) <= len(p) {
			checkFour(t, p, int(stride), int(n))
		}
	})
}

func FuzzUpdate(f *testing.F) {
	for _, n := range []int{0, 7, 127, 128, 191, 192, 511, 512, 1444, 5000} {
		f.Add(uint32(n), uint8(n), octets(5, n))
	}
	f.Fuzz(func(t *testing.T, crc uint32, skip uint8, b []byte) {
		p := b[min(int(skip), len(b)):]
		check(t, crc, p)
		cut := int(crc) % (len(p) + 1)
		if whole := Update(Update(crc, p[:cut]), p[cut:]); whole != update(crc, p) {
			t.Fatalf("%d octets in two pieces, %d and %d: got %#08x", len(p), cut, len(p)-cut, whole)
		}
	})
}

func BenchmarkUpdate(b *testing.B) {
	for _, n := range []int{2, 20, 64, 128, 256, 512, 1444, 4096, 65536, 1 << 20} {
		p := make([]byte, n)
		for name, f := range map[string]func(uint32, []byte) uint32{"std": update, "stag": Update} {
			b.Run(fmt.Sprintf("%d/%s", n, name), func(b *testing.B) {
				b.SetBytes(int64(n))
				for b.Loop() {
					f(0, p)
				}
			})
		}
	}
}

func BenchmarkFour(b *testing.B) {
	for _, n := range []int{20, 84, 128, 192, 256, 384, 512, 1024} {
		p := make([]byte, 4*(n+4))
		b.Run(fmt.Sprintf("%d/one by one", n), func(b *testing.B) {
			b.SetBytes(int64(4 * n))
			for b.Loop() {
				for i := range 4 {
					Update(0, p[i*(n+4):][:n])
				}
			}
		})
		b.Run(fmt.Sprintf("%d/four", n), func(b *testing.B) {
			b.SetBytes(int64(4 * n))
			for b.Loop() {
				Four(p, n+4, n)
			}
		})
	}
}

// checkFour compares Four with hash/crc32.
func checkFour(t *testing.T, p []byte, stride, n int) {
	t.Helper()
	if got, want := Four(p, stride, n), fourUpdates(p, stride, n); got != want {
		t.Fatalf("four times %d octets, %d apart: got %#08x, want %#08x", n, stride, got, want)
	}
}
