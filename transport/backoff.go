package transport

import "time"

// backoff says how long to wait between attempts: twice as long after each failure,
// between two bounds, and up to a half less, at random, so that the clients of a server
// that comes back do not all come at once.
type backoff struct {
	least, most time.Duration
	wait        time.Duration // before jitter; 0: none has failed
}

// next returns the wait after a failure. chance is in [0, 1).
func (b *backoff) next(chance float64) time.Duration {
	b.wait = min(max(2*b.wait, b.least), b.most)
	return b.wait - time.Duration(chance*float64(b.wait/2))
}

// reset begins anew after a success.
func (b *backoff) reset() { b.wait = 0 }
