package judge

import (
	"testing"
)

// TestSentCalls: the remembered calls are bounded, and the last ones stay.
func TestSentCalls(t *testing.T) {
	var s sentCalls
	key := func(i int) callKey { return callKey{xid: uint32(i)} }
	for i := range 3 * maxSent {
		if s.add(key(i)) {
			t.Fatalf("call %d was sent before", i)
		}
	}
	if len(s.seen) != maxSent || len(s.last) != maxSent {
		t.Errorf("%d calls remembered, %d in the ring, want %d", len(s.seen), len(s.last), maxSent)
	}
	if !s.add(key(3*maxSent-1)) || s.add(key(0)) {
		t.Error("not the last ones are remembered")
	}
	if s.add(key(2*maxSent + 1)) {
		t.Error("the oldest is remembered although two were added after it")
	}
}
