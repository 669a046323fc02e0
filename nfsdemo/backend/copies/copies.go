// Package copies counts the octets of file data that are copied in user space, so that tests
// can hold READ and WRITE to their budget. Counting is off until [Start]; it then costs one
// atomic addition per copy.
//
// System calls that move data between the kernel and the caller's buffer are not copies in
// user space and are not counted.
package copies

import "sync/atomic"

var (
	on    atomic.Bool
	total atomic.Int64
)

// Start sets the count to zero and begins to count, for the whole process.
func Start() {
	total.Store(0)
	on.Store(true)
}

// Stop ends counting and returns the octets copied since Start.
func Stop() int64 {
	on.Store(false)
	return total.Load()
}

// Copy is the built-in copy, counted. Code that moves file data calls it instead.
func Copy(dst, src []byte) int {
	n := copy(dst, src)
	if on.Load() {
		total.Add(int64(n))
	}
	return n
}
