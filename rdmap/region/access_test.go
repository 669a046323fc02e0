package region

import "testing"

func TestAccessString(t *testing.T) {
	for a, want := range map[Access]string{
		0:                        "none",
		RemoteRead:               "remote-read",
		RemoteWrite | ReadSink:   "remote-write|read-sink",
		FlushVisible | Verify:    "flush-visible|verify",
		Atomic | FlushPersistent: "atomic|flush-persistent",
		RemoteInvalidate | 1<<12: "remote-invalidate|Access(0x1000)",
		accessAll &^ (accessAll >> 1) & accessAll: "read-sink",
	} {
		if got := a.String(); got != want {
			t.Errorf("%#x: got %q, want %q", uint16(a), got, want)
		}
	}
}

func TestSTag(t *testing.T) {
	s := STag(0x11223344)
	if s.Index() != 0x112233 || s.Key() != 0x44 || s.String() != "11223344" {
		t.Errorf("%x %x %v", s.Index(), s.Key(), s)
	}
}
