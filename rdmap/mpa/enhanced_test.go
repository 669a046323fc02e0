package mpa_test

import (
	"errors"
	"testing"

	"github.com/stag-rdma/stag/rdmap/mpa"
)

func TestEnhancedBits(t *testing.T) {
	for _, tt := range []struct {
		e    mpa.Enhanced
		wire string
	}{
		{mpa.Enhanced{}, "00000000"},
		{mpa.Enhanced{PeerToPeer: true}, "80000000"},
		{mpa.Enhanced{RTR: mpa.RTRSend}, "40000000"},
		{mpa.Enhanced{IRD: mpa.NotNegotiated}, "3fff0000"},
		{mpa.Enhanced{RTR: mpa.RTRWrite}, "00008000"},
		{mpa.Enhanced{RTR: mpa.RTRRead}, "00004000"},
		{mpa.Enhanced{ORD: mpa.NotNegotiated}, "00003fff"},
		{mpa.Enhanced{ORD: 1, IRD: 2}, "00020001"},
	} {
		wire := unhex(t, tt.wire)
		if got := tt.e.Append(nil); string(got) != string(wire) {
			t.Errorf("%+v: got %x, want %x", tt.e, got, wire)
		}
		if got, ok := mpa.ParseEnhanced(wire); !ok || got != tt.e {
			t.Errorf("%x: got %+v", wire, got)
		}
		for cut := range wire {
			if _, ok := mpa.ParseEnhanced(wire[:cut]); ok {
				t.Errorf("cut at %d accepted", cut)
			}
		}
	}
	if got := (mpa.Enhanced{IRD: 0xffff, ORD: 0xffff}).Append(nil); string(got) != string(unhex(t, "3fff3fff")) {
		t.Errorf("depths not cut to 14 bits: %x", got)
	}
}

// anyRTR holds every option.
const anyRTR = mpa.RTRSend | mpa.RTRWrite | mpa.RTRRead

// agreed returns the option that an Initiator that knows all sends to a peer that accepts set.
func agreed(t *testing.T, set mpa.RTR) mpa.RTR {
	t.Helper()
	i := initiator(t, mpa.Config{PeerToPeer: true, RTR: anyRTR, IRD: 16, ORD: 16})
	i.AppendRequest(nil)
	b, err := (&mpa.Reply{mpa.Frame{Rev: 2, CRC: true, Enhanced: true, Word: mpa.Enhanced{PeerToPeer: true, RTR: set, IRD: 16, ORD: 16}}}).Append(nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := i.Input(b); err != nil {
		if e, ok := errors.AsType[*mpa.Error](err); !ok || e.Code != mpa.CodeRTR {
			t.Fatal(err)
		}
		return 0
	}
	return i.Result().RTR
}

func TestRTR(t *testing.T) {
	for _, tt := range []struct {
		set    mpa.RTR
		prefer mpa.RTR
		name   string
	}{
		{0, 0, "none"},
		{mpa.RTRSend, mpa.RTRSend, "send"},
		{mpa.RTRSend | mpa.RTRRead, mpa.RTRRead, "send|read"},
		{anyRTR, mpa.RTRWrite, "send|write|read"},
	} {
		if got := agreed(t, tt.set); got != tt.prefer {
			t.Errorf("%v prefers %v, want %v", tt.set, got, tt.prefer)
		}
		if got := tt.set.String(); got != tt.name {
			t.Errorf("got %q, want %q", got, tt.name)
		}
	}
}
