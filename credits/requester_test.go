package credits_test

import (
	"testing"

	"github.com/stag-rdma/stag/credits"
)

func want(t *testing.T, what string, got, want int) {
	t.Helper()
	if got != want {
		t.Errorf("%s = %d, want %d", what, got, want)
	}
}

// A window as the replies of one connection move it.
func TestRequesterWindow(t *testing.T) {
	for _, tc := range []struct {
		name   string
		asked  uint32
		grants []uint32
		window int
	}{
		{"before the first reply", 32, nil, 1},
		{"granted less", 32, []uint32{10}, 10},
		{"granted the same", 32, []uint32{32}, 32},
		{"granted more", 32, []uint32{100}, 32},
		{"granted 2^32-1", 32, []uint32{1<<32 - 1}, 32},
		{"granted 0 counts as 1", 32, []uint32{0}, 1},
		{"the latest is in force", 32, []uint32{20, 5, 8}, 8},
		{"asked 0 counts as 1", 0, []uint32{50}, 1},
		{"asked 2^32-1 is capped", 1<<32 - 1, []uint32{1<<32 - 1}, credits.MaxCredits},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := credits.NewRequester(tc.asked)
			for _, g := range tc.grants {
				r.Grant(g)
			}
			want(t, "Window", r.Window(), tc.window)
			want(t, "Available", r.Available(), tc.window)
			if r.Request() != min(max(tc.asked, 1), credits.MaxCredits) {
				t.Errorf("Request = %d", r.Request())
			}
		})
	}
}

func TestRequesterZeroValue(t *testing.T) {
	var r credits.Requester
	if r.Request() != 1 || r.Window() != 1 || !r.Take() || r.Take() || !r.Release() || r.Release() {
		t.Errorf("the zero value is not a window of one: %+v", r)
	}
}

// What an old connection still says after a reconnect changes nothing.
func TestRequesterStale(t *testing.T) {
	r := credits.NewRequester(8)
	r.Grant(8)
	old := r.Epoch()
	r.Take()
	r.Reset()
	want(t, "Window after Reset", r.Window(), 1)
	if !r.Take() || r.Take() {
		t.Fatal("a new connection starts with other than one credit")
	}
	if r.GrantIn(old, 8); r.ReleaseIn(old) {
		t.Error("a stale call released a credit")
	}
	want(t, "Window", r.Window(), 1)
	want(t, "InFlight", r.InFlight(), 1)
	r.GrantIn(r.Epoch(), 8)
	if !r.ReleaseIn(r.Epoch()) {
		t.Error("a call of this connection did not release its credit")
	}
	want(t, "Available", r.Available(), 8)
}
