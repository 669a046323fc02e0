//go:build !race && !invariants

package mem

// poison does nothing without the race detector or the invariants tag.
func poison([]byte) {}
