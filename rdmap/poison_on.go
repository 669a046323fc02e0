//go:build race || invariants

package rdmap

import "sync/atomic"

// poison fills memory whose lending is over, so that a use after it is seen.
func poison(b []byte) {
	for i := range b {
		b[i] = 0xcc
	}
}

// lent counts the stagings and chunks that are not in their pools.
var lent atomic.Int64

func lend(n int64) { lent.Add(n) }

// outstanding returns how many stagings and chunks have not been given back.
func outstanding() int64 { return lent.Load() }
