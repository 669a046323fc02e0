// Package copies counts the octets of file data that are copied in user space, so that tests
// can check that READ and WRITE stay within their budget. Counting is off until [Start]; then
// it costs one atomic addition per copy.
//
// System calls that move data between the kernel and the caller's buffer are not copies in
// user space and are not counted.
package copies

import "sync/atomic"

var (
	on    atomic.Bool
	total atomic.Int64
)

// Start resets the count to zero and starts counting, for the whole process.
func Start() {
	total.Store(0)
	on.Store(true)
}

// Stop stops counting and returns the octets copied since Start.
func Stop() int64 {
	on.Store(false)
	return total.Load()
}

// Copy is the built-in copy, counted. All code that moves file data calls it.
func Copy(dst, src []byte) int {
	n := copy(dst, src)
	if on.Load() {
		total.Add(int64(n))
	}
	return n
}
