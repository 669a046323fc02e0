package region_test

import (
	"errors"
	"testing"

	"github.com/stag-rdma/stag/rdmap/region"
)

// ADVERSARY 14: memory is revoked and registered again. The old STag does not come back within 255
// registrations, although the entry is used again.
func TestOldKey(t *testing.T) {
	tab := region.NewTable()
	mem := make([]byte, 8)
	var old []region.STag
	for i := range 600 {
		r := register(t, tab, mem, region.RemoteWrite)
		if r.STag() == 0 {
			t.Fatal("STag 0")
		}
		for _, s := range old {
			if s == r.STag() {
				t.Fatalf("registration %d: %v again", i, s)
			}
			if err := try(tab, s, 0, 8, region.RemoteWrite); !errors.Is(err, region.ErrInvalidSTag) {
				t.Fatalf("old STag %v: %v", s, err)
			}
		}
		if n := len(old); n > 0 && r.STag().Key() == old[n-1].Key() {
			t.Fatalf("registration %d has the key of the one before", i)
		}
		old = append(old, r.STag())[max(0, len(old)-254):]
		invalidate(t, r)
	}
}

// RFC 5040 Section 8.1 asks for STags that are hard to predict and sparse: each of the 24 random bits is set about
// half of the time, and hardly any value is drawn twice.
func TestUnpredictable(t *testing.T) {
	tab := region.NewTable()
	const n = 4096
	var ones [24]int
	seen := map[uint32]bool{}
	for range n {
		r := register(t, tab, nil, 0)
		idx := r.STag().Index()
		seen[idx] = true
		for b := range ones {
			ones[b] += int(idx >> b & 1)
		}
		invalidate(t, r)
	}
	for b, k := range ones {
		if k < n/2-n/8 || k > n/2+n/8 { // 16 standard deviations
			t.Errorf("bit %d set %d times of %d", b, k, n)
		}
	}
	if len(seen) < n-64 {
		t.Errorf("%d different values of %d", len(seen), n)
	}
}

// must returns v, unless err ends the test.
func must[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		noErr(t, err)
		return v
	}
}

// noErr ends the test if err is an error.
func noErr(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
