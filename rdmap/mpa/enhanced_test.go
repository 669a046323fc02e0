package mpa

import "testing"

func TestEnhancedBits(t *testing.T) {
	for _, tt := range []struct {
		e    Enhanced
		wire string
	}{
		{Enhanced{}, "00000000"},
		{Enhanced{PeerToPeer: true}, "80000000"},
		{Enhanced{RTR: RTRSend}, "40000000"},
		{Enhanced{IRD: NotNegotiated}, "3fff0000"},
		{Enhanced{RTR: RTRWrite}, "00008000"},
		{Enhanced{RTR: RTRRead}, "00004000"},
		{Enhanced{ORD: NotNegotiated}, "00003fff"},
		{Enhanced{ORD: 1, IRD: 2}, "00020001"},
	} {
		wire := unhex(t, tt.wire)
		if got := tt.e.Append(nil); string(got) != string(wire) {
			t.Errorf("%+v: got %x, want %x", tt.e, got, wire)
		}
		if got, ok := ParseEnhanced(wire); !ok || got != tt.e {
			t.Errorf("%x: got %+v", wire, got)
		}
		for cut := range wire {
			if _, ok := ParseEnhanced(wire[:cut]); ok {
				t.Errorf("cut at %d accepted", cut)
			}
		}
	}
	if got := (Enhanced{IRD: 0xffff, ORD: 0xffff}).Append(nil); string(got) != string(unhex(t, "3fff3fff")) {
		t.Errorf("depths not cut to 14 bits: %x", got)
	}
}

func TestRTR(t *testing.T) {
	for _, tt := range []struct {
		set    RTR
		prefer RTR
		name   string
	}{
		{0, 0, "none"},
		{RTRSend, RTRSend, "send"},
		{RTRSend | RTRRead, RTRRead, "send|read"},
		{rtrAll, RTRWrite, "send|write|read"},
	} {
		if got := tt.set.prefer(); got != tt.prefer {
			t.Errorf("%v prefers %v, want %v", tt.set, got, tt.prefer)
		}
		if got := tt.set.String(); got != tt.name {
			t.Errorf("got %q, want %q", got, tt.name)
		}
	}
}
