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

// Limits of failed comparisons over one memory by one principal: maxGuesses at once, and one more after each
// guessEvery. maxGuessers limits the principals that are told apart; further ones share a count.
const (
	maxGuesses  = 16
	guessEvery  = time.Second
	maxGuessers = 256
)

// guesses are leaky buckets of failed comparisons, by principal: a name, or a Table without one.
type guesses struct {
	mu  sync.Mutex
	by  map[any]*guesser
	all guesser // of those beyond maxGuessers
}

// guesser is a bucket.
type guesser struct {
	n     int
	since time.Time // of the last one that leaked away
}

// of returns the bucket of a principal, to change it if write is set. The caller holds g.mu.
func (g *guesses) of(who any, write bool) *guesser {
	b := g.by[who]
	switch {
	case b != nil:
		return b
	case len(g.by) >= maxGuessers:
		for k, old := range g.by {
			if old.leak(); old.n == 0 {
				delete(g.by, k)
			}
		}
	}
	if len(g.by) >= maxGuessers {
		return &g.all
	}
	b = new(guesser)
	if write {
		if g.by == nil {
			g.by = make(map[any]*guesser)
		}
		g.by[who] = b
	}
	return b
}

func (g *guesses) add(who any) {
	g.mu.Lock()
	defer g.mu.Unlock()
	b := g.of(who, true)
	if b.leak(); b.n == 0 {
		b.since = time.Now()
	}
	b.n++
}

func (g *guesses) full(who any) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	b := g.of(who, false)
	b.leak()
	return b.n >= maxGuesses
}

func (b *guesser) leak() {
	if b.n == 0 {
		return
	}
	gone := int(min(time.Since(b.since)/guessEvery, time.Duration(b.n)))
	b.n -= gone
	b.since = b.since.Add(time.Duration(gone) * guessEvery)
}
