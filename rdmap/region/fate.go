package region

import (
	"reflect"
	"sync"
	"sync/atomic"
	"time"
)

// fate is what all registrations of one Memory share, whatever their domains: whether it has failed,
// and how often peers have guessed at its hashes.
type fate struct {
	lost  atomic.Bool
	users int // registrations; under fates.mu
	guesses
}

// fates has the fate of each Memory. Memories are few and live long; plain slices are not in it.
var fates = struct {
	mu sync.Mutex
	of map[Memory]*fate
}{of: make(map[Memory]*fate)}

// joinFate returns the fate of mem for one more registration. A mem that is not comparable gets a
// fate of its own each time.
func joinFate(mem Memory) *fate {
	if !reflect.ValueOf(mem).Comparable() {
		return new(fate)
	}
	fates.mu.Lock()
	defer fates.mu.Unlock()
	f := fates.of[mem]
	if f == nil {
		f = new(fate)
		fates.of[mem] = f
	}
	f.users++
	return f
}

// leaveFate is called once for each joinFate.
func leaveFate(mem Memory) {
	if !reflect.ValueOf(mem).Comparable() {
		return
	}
	fates.mu.Lock()
	defer fates.mu.Unlock()
	f := fates.of[mem]
	if f.users--; f.users == 0 {
		delete(fates.of, mem)
	}
}

// RevokeMemory is for memory that has failed. It makes every registration of mem invalid, in all
// domains and at once. New registrations are invalid too, as long as one of the present ones
// exists. It does nothing if mem is not comparable, as a Bytes is not.
func RevokeMemory(mem Memory) {
	if !reflect.ValueOf(mem).Comparable() {
		return
	}
	fates.mu.Lock()
	defer fates.mu.Unlock()
	if f := fates.of[mem]; f != nil {
		f.lost.Store(true)
	}
}

// Limits of failed comparisons over one memory: maxGuesses at once, and one more after each
// guessEvery.
const (
	maxGuesses = 16
	guessEvery = time.Second
)

// guesses is a leaky bucket of failed comparisons.
type guesses struct {
	mu    sync.Mutex
	n     int
	since time.Time // of the last one that leaked away
}

func (g *guesses) add() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.leak(); g.n == 0 {
		g.since = time.Now()
	}
	g.n++
}

func (g *guesses) full() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.leak()
	return g.n >= maxGuesses
}

func (g *guesses) leak() {
	if g.n == 0 {
		return
	}
	gone := int(min(time.Since(g.since)/guessEvery, time.Duration(g.n)))
	g.n -= gone
	g.since = g.since.Add(time.Duration(gone) * guessEvery)
}
