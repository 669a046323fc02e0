package mpa_test

import (
	"cmp"
	"errors"
	"math/bits"
	"testing"

	"github.com/stag-rdma/stag/rdmap/mpa"
)

// Both our roles against each other: their outcomes fit together.
func TestPairMatrix(t *testing.T) {
	for shape := range 4 {
		for opts := range 32 {
			for set := range mpa.RTR(8) {
				for accept := range mpa.RTR(8) {
					for _, d := range matrixDepths[:5] {
						i := mpa.Config{
							Rev: uint8(1 + shape&1), Plain: shape&2 != 0, NoCRC: opts&1 != 0, PeerToPeer: opts&2 != 0, RTR: set,
							IRD: d, ORD: 3, Markers: true, WantMarkers: opts&8 != 0, PrivateData: []byte("from i"),
						}
						r := mpa.Config{NoCRC: opts&4 != 0, RTR: accept, IRD: 2, ORD: 20, Markers: true, WantMarkers: opts&16 != 0}
						checkPair(t, i, r)
					}
				}
			}
		}
	}
}

func checkPair(t *testing.T, ic, rc mpa.Config) {
	i, r := initiator(t, ic), responder(t, rc)
	if _, err := r.Input(i.AppendRequest(nil)); err != nil {
		t.Fatalf("%+v: %v", ic, err)
	}
	reply, err := r.Accept(nil, []byte("from r"))
	if err != nil {
		t.Fatal(err)
	}
	_, err = i.Input(reply)
	if e, ok := errors.AsType[*mpa.Error](err); ok && e.Code == mpa.CodeRTR {
		// Legal only if the two sets are disjoint.
		a, b := cmp.Or(ic.RTR, mpa.RTRWrite|mpa.RTRRead), cmp.Or(rc.RTR, anyRTR)
		if a&b != 0 {
			t.Fatalf("%v against %v: %v", a, b, err)
		}
		return
	}
	if err != nil {
		t.Fatalf("%+v, %+v: %v", ic, rc, err)
	}
	a, b := i.Result(), r.Result()
	switch {
	case a.CRC != b.CRC, a.CRC != (!ic.NoCRC || !rc.NoCRC):
		t.Fatalf("CRC %v and %v", a.CRC, b.CRC)
	case a.SendMarkers != b.RecvMarkers, b.SendMarkers != a.RecvMarkers,
		a.RecvMarkers != ic.WantMarkers, b.RecvMarkers != rc.WantMarkers:
		t.Fatalf("markers: %+v\n%+v", a, b)
	case a.Rev != b.Rev, a.Enhanced != b.Enhanced, a.PeerToPeer != b.PeerToPeer, a.UnaskedPeerToPeer:
		t.Fatalf("%+v\n%+v", a, b)
	case a.RTR&^b.RTR != 0, (a.RTR == 0) != (b.RTR == 0), bits.OnesCount8(uint8(a.RTR)) > 1,
		(a.RTR != 0) != (ic.PeerToPeer && a.Enhanced):
		t.Fatalf("RTR %v, expected %v", a.RTR, b.RTR)
	case a.Enhanced && (a.ORD > b.IRD || b.ORD > a.IRD):
		t.Fatalf("depths: %+v\n%+v", a, b)
	case string(a.PrivateData) != "from r", string(b.PrivateData) != "from i":
		t.Fatalf("private data %q, %q", a.PrivateData, b.PrivateData)
	}
}

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
