package pmemtest

import (
	"slices"
	"sync/atomic"
	"unsafe"
)

// wordSize is how many octets an atomic operation changes.
const wordSize = 8

// appendWords appends b to dst. Aligned words of 8 octets are loaded atomically, so that a word changed
// by sync/atomic is never seen half changed, and those who change it so do not race with appendWords. With
// plain stores appendWords races as any reader does.
func appendWords(dst, b []byte) []byte {
	dst = slices.Grow(dst, len(b))
	out := dst[len(dst) : len(dst)+len(b)]
	base := uintptr(unsafe.Pointer(unsafe.SliceData(b)))
	i := min(int(-base%wordSize), len(b))
	copy(out, b[:i])
	for ; i+wordSize <= len(b); i += wordSize {
		w := atomic.LoadUint64((*uint64)(unsafe.Pointer(&b[i])))
		*(*[wordSize]byte)(out[i:]) = *(*[wordSize]byte)(unsafe.Pointer(&w))
	}
	copy(out[i:], b[i:])
	return dst[:len(dst)+len(b)]
}
