package region

import (
	"testing"
)

// TestContended: which rights let operations of peers meet in one memory.
func TestContended(t *testing.T) {
	for _, tt := range []struct {
		a    Access
		n    int
		want bool
	}{
		{RemoteRead, 1, false},
		{RemoteRead, 5, false},
		{RemoteRead | Verify | FlushPersistent, 2, false},
		{RemoteWrite, 1, false},
		{RemoteWrite | FlushVisible | RemoteInvalidate, 1, false},
		{ReadSink, 3, false},
		{Atomic, 1, false},
		{RemoteWrite, 2, true},
		{RemoteWrite | RemoteRead, 1, true},
		{RemoteWrite | Atomic, 1, true},
		{Atomic | RemoteRead, 1, true},
		{RemoteWrite | Verify, 1, true},
		{RemoteWrite | FlushPersistent, 1, true},
	} {
		if got := contended(tt.a, tt.n); got != tt.want {
			t.Errorf("%v, %d registrations: %v", tt.a, tt.n, got)
		}
	}
}

// TestSeen: the race detector sees accesses to memory in which no operations of peers can meet, and not the others, as long
// as they can.
func TestSeen(t *testing.T) {
	before := len(registered.by)
	tab := NewTable()
	mem := make([]byte, 64)
	guarded := func(r Region, need Access) bool {
		v, err := tab.Lookup(r.STag(), 0, 8, need)
		if err != nil {
			t.Fatal(err)
		}
		defer v.Release()
		return v.Guarded()
	}
	w, _ := tab.Register(mem, RemoteWrite)
	if guarded(w, RemoteWrite) {
		t.Error("written by one stream alone, and not seen")
	}
	r, _ := tab.Register(mem, RemoteRead)
	if guarded(w, RemoteWrite) != RaceDetector || guarded(r, RemoteRead) != RaceDetector {
		t.Error("written and read")
	}
	for _, reg := range []Region{w, r} {
		if err := reg.Invalidate(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	w, _ = tab.Register(mem, RemoteWrite)
	if guarded(w, RemoteWrite) {
		t.Error("written by one stream alone again, and not seen")
	}
	if both, _ := tab.Register(make([]byte, 64), RemoteWrite|RemoteRead); guarded(both, RemoteRead) != RaceDetector {
		t.Error("written and read by one registration")
	}
	if err := tab.Close(t.Context()); err != nil || len(registered.by) != before {
		t.Errorf("%d memories are left of %d, %v", len(registered.by), before, err)
	}
}
