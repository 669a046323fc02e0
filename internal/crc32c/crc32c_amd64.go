//go:build !purego

package crc32c

// Update returns the CRC32C of the octets that crc covers followed by p.
func Update(crc uint32, p []byte) uint32 {
	if !folds {
		return update(crc, p)
	}
	return ^fold(^crc, p, &keys)
}

// Four returns the CRC32C of four pieces of p, n octets each, which begin at 0, stride, 2*stride and
// 3*stride. In a short sum each instruction waits for the one before it, so four sums side by side
// take as long as one.
func Four(p []byte, stride, n int) (sums [4]uint32) {
	if !folds {
		return fourUpdates(p, stride, n)
	}
	_ = p[3*stride : len(p) : len(p)][:n]
	four(p, stride, n, &sums)
	return sums
}

// folds reports that fold and four can run here.
var folds = detect(cpuid, xgetbv)

// detect reports whether the processor has the instructions that fold uses and the operating system
// saves their registers. cpuid(0) returns the highest leaf.
func detect(cpuid func(leaf, sub uint32) (a, b, c, d uint32), xgetbv func() uint32) bool {
	const (
		sse42, osxsave            = 1 << 20, 1 << 27 // leaf 1, ECX
		avx2, avx512f, vpclmulqdq = 1 << 5, 1 << 16, 1 << 10
		registers                 = 0xe6 // XCR0: XMM, YMM, masks, both parts of ZMM
	)
	if top, _, _, _ := cpuid(0, 0); top < 7 {
		return false
	}
	if _, _, c, _ := cpuid(1, 0); c&(sse42|osxsave) != sse42|osxsave || xgetbv()&registers != registers {
		return false
	}
	_, b, c, _ := cpuid(7, 0)
	return b&(avx2|avx512f) == avx2|avx512f && c&vpclmulqdq != 0
}

// A foldKey moves 16 octets forward by some distance: the product of their first 8 and first, plus
// the product of their last 8 and last, has the same remainder as the 16 octets followed by that
// many zeros.
type foldKey struct{ first, last uint64 }

// The distances of foldKeys, octets.
var distances = [...]int{256, 192, 128, 64, 48, 32, 16}

// foldKeys has one key for each of distances, and a last one of zeros.
type foldKeys [len(distances) + 1]foldKey

var keys = newKeys()

func newKeys() (k foldKeys) {
	for i, d := range distances {
		k[i] = foldKey{power(8*d + 63), power(8*d - 1)}
	}
	return k
}

// power returns x^n modulo the polynomial in the upper half of 64 bits. The lowest bit stands for
// x^63, the order of bits in which CRC32C reads its octets. The product of two such numbers is short
// of 128 bits by one x, and so are the exponents above.
func power(n int) uint64 {
	r := uint32(1) << 31 // 1
	for range n {
		r = r>>1 ^ -(r&1)&0x82f63b78 // crc32.Castagnoli
	}
	return uint64(r) << 32
}

// fold is Update for the register of the CRC, which is not complemented.
//
//go:noescape
func fold(reg uint32, p []byte, k *foldKeys) uint32

// four is Four without its check that the pieces lie in p.
//
//go:noescape
func four(p []byte, stride, n int, sums *[4]uint32)

//go:noescape
func cpuid(leaf, sub uint32) (a, b, c, d uint32)

// xgetbv returns the lower half of XCR0. It needs OSXSAVE.
//
//go:noescape
func xgetbv() uint32
