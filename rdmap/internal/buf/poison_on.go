//go:build race || invariants

package buf

import "sync/atomic"

// Poison fills memory that is no longer lent, so that a later use of it is noticed.
func Poison(b []byte) {
	for i := range b {
		b[i] = 0xcc
	}
}

// lent counts the stagings and chunks that are not in their pools.
var lent atomic.Int64

func lend(n int64) { lent.Add(n) }

// Outstanding returns how many stagings and chunks have not been given back.
func Outstanding() int64 { return lent.Load() }
