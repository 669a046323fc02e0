package region_test

import (
	"testing"

	"github.com/stag-rdma/stag/rdmap/region"
)

// anyAccess holds every right.
const anyAccess = region.Scratch<<1 - 1

func TestAccessString(t *testing.T) {
	for a, want := range map[region.Access]string{
		0:                                      "none",
		region.RemoteRead:                      "remote-read",
		region.RemoteWrite | region.ReadSink:   "remote-write|read-sink",
		region.FlushVisible | region.Verify:    "flush-visible|verify",
		region.Atomic | region.FlushPersistent: "atomic|flush-persistent",
		region.RemoteInvalidate | 1<<12:        "remote-invalidate|Access(0x1000)",
		region.ReadSink:                        "read-sink",
	} {
		if got := a.String(); got != want {
			t.Errorf("%#x: got %q, want %q", uint16(a), got, want)
		}
	}
}

func TestSTag(t *testing.T) {
	s := region.STag(0x11223344)
	if s.Index() != 0x112233 || s.Key() != 0x44 || s.String() != "11223344" {
		t.Errorf("%x %x %v", s.Index(), s.Key(), s)
	}
}
