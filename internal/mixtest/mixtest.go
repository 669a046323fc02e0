package mixtest

import (
	"encoding/binary"
	"flag"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"
)

var (
	duration = flag.Duration("mix.time", 100*time.Millisecond, "how long each run of TestMix takes")
	runs     = flag.Int("mix.runs", 4, "runs of TestMix")
	first    = flag.Uint64("mix.seed", 0, "seed of the first run of TestMix, and of models; 0: any")
)

// Time returns how long a run takes.
func Time() time.Duration { return *duration }

// Seed returns that of the first run: the one that was asked for, or any.
func Seed() uint64 {
	if *first != 0 {
		return *first
	}
	return rand.Uint64()>>16 + 1
}

// Run calls f in a subtest for each run. The seed is in the name of the subtest.
func Run(t *testing.T, f func(t *testing.T, seed uint64)) {
	seed := Seed()
	for i := range uint64(*runs) {
		t.Run(fmt.Sprint("seed ", seed+i), func(t *testing.T) { f(t, seed+i) })
	}
}

// Octets returns n random octets, n a multiple of 8, always the same.
func Octets(n int) []byte {
	b := make([]byte, n)
	rnd := rand.New(rand.NewPCG(3, 4))
	for i := 0; i < n; i += 8 {
		binary.LittleEndian.PutUint64(b[i:], rnd.Uint64())
	}
	return b
}
