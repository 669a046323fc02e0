//go:build race || invariants

package transport

// poison fills memory nobody may use any longer, so that tests notice who does.
func poison(b []byte) {
	for i := range b {
		b[i] = 0xcc
	}
}
