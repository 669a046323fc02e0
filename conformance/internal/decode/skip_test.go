package decode

import (
	"net/netip"
	"testing"
)

// TestSkipUnsynced: octets that are given up before all that was seen are missing, not before the beginning.
func TestSkipUnsynced(t *testing.T) {
	var s stream
	s.flow = NewCapture(nil, func(*Event) {}).newFlow(netip.AddrPort{}, netip.AddrPort{})
	s.acknowledged(100, Stamp{Frame: 1})
	s.skip(150, Stamp{Frame: 2}, &s)
	if now, later := s.place(170, []byte("octets")); now || !later || s.next != 150 {
		t.Errorf("now %t, later %t, next %d", now, later, s.next)
	}
}
