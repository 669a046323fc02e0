package rdmaptest

import (
	"encoding/binary"
	"flag"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"
)

var (
	mixTime  = flag.Duration("mix.time", 100*time.Millisecond, "how long each run of TestMix takes")
	mixRuns  = flag.Int("mix.runs", 4, "runs of TestMix")
	mixFirst = flag.Uint64("mix.seed", 0, "seed of the first run of TestMix, and of models; 0: any")
)

// MixTime returns how long a run takes.
func MixTime() time.Duration { return *mixTime }

// MixSeed returns that of the first run: the one that was asked for, or any.
func MixSeed() uint64 {
	if *mixFirst != 0 {
		return *mixFirst
	}
	return rand.Uint64()>>16 + 1
}

// Mix calls f in a subtest for each run. The seed is in the name of the subtest.
func Mix(t *testing.T, f func(t *testing.T, seed uint64)) {
	seed := MixSeed()
	for i := range uint64(*mixRuns) {
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
