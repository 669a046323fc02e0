package rdmap

import (
	"context"
	"testing"
)

// poisoning reports that memory is overwritten when its lending ends, and that the
// race detector is at work, as a rule.
var poisoning = func() bool {
	b := []byte{0}
	poison(b)
	return b[0] != 0
}()

var background = context.Background()

// TestPoison: memory given back is overwritten in instrumented builds, so that a use
// after its lending shows.
func TestPoison(t *testing.T) {
	b := make(poolBuf, 8)
	p := NewPool(100)
	p.put(b)
	if poisoning && b[3] != 0xcc {
		t.Fatal("not poisoned")
	}
}
