//go:build !race

package hostile

// Race says that the race detector is there.
const Race = false
