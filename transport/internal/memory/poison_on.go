//go:build race || invariants

package memory

// poison fills memory that nobody may use anymore, so that tests notice if somebody does.
func poison(b []byte) {
	for i := range b {
		b[i] = 0xcc
	}
}
