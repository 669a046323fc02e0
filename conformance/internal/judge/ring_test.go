package judge

import (
	"encoding/binary"
	"testing"
)

// TestHeaderRing: a header is found with its length while it is among the last maxHeaders, and the ring says
// whether it has forgotten anything.
func TestHeaderRing(t *testing.T) {
	var r headerRing
	header := func(n int) []byte { return binary.BigEndian.AppendUint32(make([]byte, 14), uint32(n)) }
	if _, found, all := r.find(header(0)); found || !all {
		t.Errorf("an empty ring: found %t, all %t", found, all)
	}
	for n := range maxHeaders + 10 {
		r.add(header(n), n)
		if n == 5 {
			r.add(header(5), 6) // again, with another length
		}
	}
	for _, tt := range []struct {
		n, length int
		found     bool
	}{{0, 0, false}, {9, 0, false}, {10, 10, true}, {maxHeaders, maxHeaders, true}, {maxHeaders + 9, maxHeaders + 9, true}} {
		n, found, all := r.find(header(tt.n))
		if n != tt.length || found != tt.found || !found && all {
			t.Errorf("header %d: length %d, found %t, all %t", tt.n, n, found, all)
		}
	}
	var small headerRing
	small.add(header(1), 30)
	small.add(header(1), 40)
	if n, found, all := small.find(header(1)); n != 40 || !found || !all {
		t.Errorf("the younger of two: %d, %t, %t", n, found, all)
	}
	if _, found, all := small.find(header(2)); found || !all {
		t.Errorf("never sent: found %t, all %t", found, all)
	}
}
