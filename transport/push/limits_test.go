package push

import (
	"fmt"
	"testing"
	"time"
)

// More hosts than are remembered share what is left.
func TestRates(t *testing.T) {
	r := newRates(1)
	now := time.Now()
	for i := range 2 * maxRates {
		r.try(fmt.Sprint(i), now)
	}
	if len(r.byHost) != maxRates {
		t.Errorf("%d hosts", len(r.byHost))
	}
	if r.try("one more", now) {
		t.Error("it has its own bucket")
	}
	if !r.try("one more", now.Add(time.Minute)) || len(r.byHost) != 1 {
		t.Errorf("idle ones were not forgotten: %d left", len(r.byHost))
	}
}
