// Package words copies memory that others may be changing by atomic operations.
package words

import (
	"slices"
	"sync/atomic"
	"unsafe"
)

const size = 8

// Clone returns a copy of b, as Append makes it.
func Clone(b []byte) []byte { return Append(nil, b) }

// Append appends b to dst. Aligned words of 8 octets are loaded atomically, so that a word changed
// by sync/atomic is never seen half changed, and those who change it so do not race with Append. With
// plain stores Append races as any reader does.
func Append(dst, b []byte) []byte {
	dst = slices.Grow(dst, len(b))
	out := dst[len(dst) : len(dst)+len(b)]
	base := uintptr(unsafe.Pointer(unsafe.SliceData(b)))
	i := min(int(-base%size), len(b))
	copy(out, b[:i])
	for ; i+size <= len(b); i += size {
		w := atomic.LoadUint64((*uint64)(unsafe.Pointer(&b[i])))
		*(*[size]byte)(out[i:]) = *(*[size]byte)(unsafe.Pointer(&w))
	}
	copy(out[i:], b[i:])
	return dst[:len(dst)+len(b)]
}
