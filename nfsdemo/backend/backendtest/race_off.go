//go:build !race

package backendtest

// Race says that the race detector is there.
const Race = false
