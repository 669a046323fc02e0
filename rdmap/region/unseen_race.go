//go:build race

package region

import "unsafe"

// RaceDetector says that this build has the race detector.
const RaceDetector = true

// CopyUnseen copies len(src) octets to dst, which must have as many. The detector does not see it: the copy of the
// language reports its accesses also where the compiler is told not to.
//
//go:norace
func CopyUnseen(dst, src []byte) {
	n := len(src)
	_ = dst[:n]
	to, from := unsafe.Pointer(unsafe.SliceData(dst)), unsafe.Pointer(unsafe.SliceData(src))
	i := 0
	for ; n-i >= 8; i += 8 {
		*(*[8]byte)(unsafe.Add(to, i)) = *(*[8]byte)(unsafe.Add(from, i))
	}
	for ; i < n; i++ {
		*(*byte)(unsafe.Add(to, i)) = *(*byte)(unsafe.Add(from, i))
	}
}

// readUnseen returns *p, unseen like that copy: an atomic load would order what comes before and after it, and so hide races.
//
//go:norace
//go:noinline
func readUnseen(p *bool) bool { return *p }

// setUnseen makes *p true.
//
//go:norace
//go:noinline
func setUnseen(p *bool) { *p = true }
