package decode_test

import (
	"bytes"
	"math/rand/v2"
	"os"
	"testing"

	"github.com/stag-rdma/stag/conformance/internal/decode"
)

// TestMutated decodes the captures with octets changed, dropped and doubled anywhere, their
// upper layers included: no panic, no unbounded memory, every event well formed.
func TestMutated(t *testing.T) {
	const seed = 11
	rnd := rand.New(rand.NewPCG(seed, seed))
	for _, file := range captures(t) {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		b = b[:min(len(b), 40000)]
		for round := range 25 {
			m := mutate(rnd, bytes.Clone(b))
			for ev, err := range decode.Events(bytes.NewReader(m), smallOptions) {
				if err == nil {
					checkEvent(t, ev)
				}
			}
			if t.Failed() {
				t.Fatalf("seed %d, %s, round %d", seed, file, round)
			}
		}
	}
}

// mutate damages b in up to 60 places, the headers of the file and of its packets less often than their
// contents.
func mutate(rnd *rand.Rand, b []byte) []byte {
	for range 1 + rnd.IntN(60) {
		i := 24 + rnd.IntN(len(b)-24)
		switch n := 1 + rnd.IntN(8); rnd.IntN(8) {
		case 0:
			b = append(b[:i], b[min(i+n, len(b)):]...)
		case 1:
			b = append(b[:i], append(bytes.Clone(b[i:min(i+n, len(b))]), b[i:]...)...)
		case 2:
			b[i] = 0xff
		case 3:
			b[i] = 0
		default:
			b[i] ^= 1 << rnd.IntN(8)
		}
	}
	return b
}
