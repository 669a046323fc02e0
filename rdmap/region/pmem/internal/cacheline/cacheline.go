// Package cacheline writes cache lines back to memory.
package cacheline

// Size is the size of a line in octets, on the processors that this package knows.
const Size = 64

// Lines returns how many lines cover n octets at address addr, and the address of the
// first.
func Lines(addr uintptr, n int) (first uintptr, count int) {
	if n <= 0 {
		return addr, 0
	}
	first = addr &^ (Size - 1)
	last := (addr + uintptr(n) - 1) &^ (Size - 1)
	return first, int((last-first)/Size) + 1
}
