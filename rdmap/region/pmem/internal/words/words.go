// Package words copies memory that others may be changing by atomic operations.
package words

import (
	"sync/atomic"
	"unsafe"
)

const size = 8

// Clone returns a copy of b. Aligned words of 8 octets are loaded atomically, so that
// a word under sync/atomic is never seen half changed, and its users do not race with
// Clone; with plain stores Clone races as any reader does.
func Clone(b []byte) []byte {
	out := make([]byte, len(b))
	base := uintptr(unsafe.Pointer(unsafe.SliceData(b)))
	i := min(int(-base%size), len(b))
	copy(out, b[:i])
	for ; i+size <= len(b); i += size {
		w := atomic.LoadUint64((*uint64)(unsafe.Pointer(&b[i])))
		*(*[size]byte)(out[i:]) = *(*[size]byte)(unsafe.Pointer(&w))
	}
	copy(out[i:], b[i:])
	return out
}
