package region

import (
	"errors"
	"testing"
)

// These tests look at the entries of a Domain: that they are used again, and that none is found by an
// STag that is not its own. The behaviour that follows is tested from outside.

// onceMore registers memory and ends that.
func onceMore(t *testing.T, tab *Table) Region {
	t.Helper()
	r, err := tab.Register(make([]byte, 8), RemoteWrite)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Invalidate(t.Context()); err != nil {
		t.Fatal(err)
	}
	return r
}

func TestEntryUsedAgain(t *testing.T) {
	tab := NewTable()
	first := onceMore(t, tab)
	for range 600 {
		if r := onceMore(t, tab); r.e != first.e {
			t.Fatal("entry not used again")
		}
	}
	if n := len(tab.dom.free); n != 1 {
		t.Errorf("%d entries, want the same one each time", n)
	}
}

// A peer that has no STag to send sends STag 0. It must never match a free entry: a lookup that loaded a slot just
// before the entry was freed would pin it, and the next registration would overwrite that pin.
func TestSTagZeroNeverPins(t *testing.T) {
	r := onceMore(t, NewTable())
	if r.e.pin(0) {
		t.Error("a free entry was pinned")
	}
	if r.e.revoke(0) {
		t.Error("a free entry was revoked")
	}
}

func TestMaxRegions(t *testing.T) {
	tab := NewTable()
	tab.dom.live = MaxRegions
	if _, err := tab.Register(nil, 0); !errors.Is(err, ErrTooMany) {
		t.Errorf("%v", err)
	}
}
