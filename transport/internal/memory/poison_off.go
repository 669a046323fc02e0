//go:build !race && !invariants

package memory

// poison does nothing without the race detector or the invariants tag.
func poison([]byte) {}
