//go:build race

package racy

import "unsafe"

// Enabled says that the race detector is there.
const Enabled = true

// Copy copies len(src) octets to dst, which must have as many. The detector does not see it: the copy of the
// language reports its accesses also where the compiler is told not to.
//
//go:norace
func Copy(dst, src []byte) {
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

// Read returns *p, unseen like Copy: an atomic load would order what comes before and after it, and so hide races.
//
//go:norace
//go:noinline
func Read(p *bool) bool { return *p }

// Set makes *p true.
//
//go:norace
//go:noinline
func Set(p *bool) { *p = true }
