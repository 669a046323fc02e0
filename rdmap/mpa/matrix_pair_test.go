package mpa_test

import (
	"errors"
	"testing"

	"github.com/stag-rdma/stag/rdmap/mpa"
)

// Which side knows which revision, and the outcome (RFC 6581 Section 10). If the two do not fit, the
// connection is closed, and the initiator may try again.
func TestMixedRevisions(t *testing.T) {
	for _, tt := range []struct {
		name     string
		init     mpa.Config
		maxRev   uint8
		closes   bool
		rev      uint8
		enhanced bool
	}{
		{"rev 1 to 6581", mpa.Config{Rev: 1}, 2, false, 1, false},
		{"rev 1 to 5044", mpa.Config{Rev: 1}, 1, false, 1, false},
		{"rev 2 plain to 6581", mpa.Config{Plain: true}, 2, false, 2, false},
		{"rev 2 plain to 5044", mpa.Config{Plain: true}, 1, true, 0, false},
		{"rev 2 enhanced to 6581", mpa.Config{PeerToPeer: true}, 0, false, 2, true},
		{"rev 2 enhanced to 5044", mpa.Config{PeerToPeer: true}, 1, true, 0, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			i, err := connect(t, tt.init, tt.maxRev)
			if tt.closes != errors.Is(err, mpa.ErrRevision) || !tt.closes && err != nil {
				t.Fatal(err)
			}
			cfg, again := i.Fallback(nil)
			if again != tt.closes {
				t.Fatalf("Fallback: %v", again)
			}
			if again {
				if i, err = connect(t, cfg, tt.maxRev); err != nil {
					t.Fatalf("second attempt: %v", err)
				}
				if n := i.Result(); n.Rev != 1 || n.Enhanced || n.PeerToPeer {
					t.Fatalf("second attempt: %+v", n)
				}
				return
			}
			if n := i.Result(); n.Rev != tt.rev || n.Enhanced != tt.enhanced {
				t.Fatalf("%+v", n)
			}
		})
	}
}

// connect returns the initiator and the error of the first side that has one.
func connect(t *testing.T, cfg mpa.Config, maxRev uint8) (*mpa.Initiator, error) {
	t.Helper()
	i, r := initiator(t, cfg), responder(t, mpa.Config{MaxRev: maxRev})
	if _, ok := i.Fallback(nil); ok {
		t.Fatal("Fallback before the Request")
	}
	if _, err := r.Input(i.AppendRequest(nil)); err != nil {
		if _, ok := i.Fallback([]byte("M")); ok {
			t.Fatal("Fallback after a part of a Reply")
		}
		return i, err
	}
	reply, err := r.Accept(nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	_, err = i.Input(reply)
	return i, err
}
