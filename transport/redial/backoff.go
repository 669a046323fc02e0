package redial

import "time"

// backoff says how long to wait between attempts: twice as long after each failure, between two
// limits. It subtracts up to a half at random, so that clients do not all come back to a restarted
// server at once.
type backoff struct {
	least, most time.Duration
	wait        time.Duration // before jitter; 0: no failure yet
}

// next returns the wait after a failure. chance is in [0, 1).
func (b *backoff) next(chance float64) time.Duration {
	b.wait = min(max(2*b.wait, b.least), b.most)
	return b.wait - time.Duration(chance*float64(b.wait/2))
}

// reset starts over after a success.
func (b *backoff) reset() { b.wait = 0 }
