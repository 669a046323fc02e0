package pushwrite

import (
	"errors"
	"os"
	"testing"

	"github.com/stag-rdma/stag/nfsdemo/internal/lease"
)

// TestRewrite: the file of the leases does not grow forever, and forgets nothing when it is written anew.
func TestRewrite(t *testing.T) {
	dir := t.TempDir()
	s, _, err := openStore(dir)
	if err != nil {
		t.Fatal(err)
	}
	live := []stored{{ID: 1, Log: "log"}}
	last := lease.ID(1)
	s.snapshot = func() ([]stored, lease.ID) { return live, last }
	s.least = 16 << 10
	if err := errors.Join(s.renew(), s.grant(&live[0])); err != nil {
		t.Fatal(err)
	}
	for range 200 { // several laps
		last++
		e := stored{ID: last, Log: "log"}
		live = append(live[:1], e)
		if err := s.grant(&e); err != nil {
			t.Fatal(err)
		}
		s.end([]lease.ID{last})
		live = live[:1]
	}
	if err := s.close(); err != nil {
		t.Fatal(err)
	}
	fi, err := os.Stat(s.path)
	if err != nil || fi.Size() > 64<<10 {
		t.Error(fi.Size(), err)
	}
	l, err := readStore(s.path)
	if err != nil || len(l.live) != 1 || l.live[0].ID != 1 || l.last != last {
		t.Errorf("%+v %v", l, err)
	}
}
