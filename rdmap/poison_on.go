//go:build race || invariants

package rdmap

// poison fills memory whose lending is over, so that a use after it is seen.
func poison(b []byte) {
	for i := range b {
		b[i] = 0xcc
	}
}
