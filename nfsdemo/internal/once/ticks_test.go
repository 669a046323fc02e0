package once

import (
	"testing"
	"time"
)

// Nor does the clock of a journal run behind its records.
func TestClock(t *testing.T) {
	last := time.Now().Add(time.Hour).UnixNano()
	now := clock(last)
	if a, b := now(), now(); a < last || b < a {
		t.Errorf("%d and %d after %d", a, b, last)
	}
	if d := clock(0)() - time.Now().UnixNano(); d > 0 || d < -int64(time.Minute) {
		t.Errorf("%d ns off", d)
	}
}
