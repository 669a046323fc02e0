//go:build !race && !invariants

package transport

// poison does nothing without the race detector or the invariants tag.
func poison([]byte) {}
