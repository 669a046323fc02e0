package mpa_test

import (
	"bytes"
	"errors"
	"reflect"
	"testing"

	"github.com/stag-rdma/stag/rdmap/mpa"
)

// anyRTR holds every option.
const anyRTR = mpa.RTRSend | mpa.RTRWrite | mpa.RTRRead

func initiator(t testing.TB, cfg mpa.Config) *mpa.Initiator {
	t.Helper()
	i, err := mpa.NewInitiator(&cfg)
	if err != nil {
		t.Fatal(err)
	}
	return i
}

func TestInitiatorRequest(t *testing.T) {
	pd := unhex(t, pdHex)
	for _, tt := range []struct {
		name string
		cfg  mpa.Config
		wire string
	}{
		{"rev 1", mpa.Config{Rev: 1}, "40010000"},
		{"rev 1 ignores peer to peer", mpa.Config{Rev: 1, PeerToPeer: true, IRD: 4, NoCRC: true}, "00010000"},
		{"rev 2 plain", mpa.Config{Plain: true}, "40020000"},
		{"all options", mpa.Config{PeerToPeer: true, RTR: anyRTR, IRD: 16, ORD: 16, PrivateData: pd}, "5002000cc010c010" + pdHex},
		{"default options", mpa.Config{PeerToPeer: true, IRD: 16, ORD: 16}, "500200048010c010"},
		{"not negotiated", mpa.Config{IRD: mpa.NotNegotiated, ORD: mpa.NotNegotiated}, "500200043fff3fff"},
		{"linux", mpa.Config{NoCRC: true, IRD: 128, PrivateData: pd}, "1002000c00800000" + pdHex},
		{"markers", mpa.Config{Rev: 1, WantMarkers: true}, "c0010000"},
		{"options without A", mpa.Config{RTR: anyRTR}, "5002000400000000"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got, want := initiator(t, tt.cfg).AppendRequest(dirty(64)), unhex(t, reqHex+tt.wire); !bytes.Equal(got, want) {
				t.Errorf("got  %x\nwant %x", got, want)
			}
		})
	}
}

func TestConfigErrors(t *testing.T) {
	for _, tt := range []struct {
		cfg        mpa.Config
		init, resp error
	}{
		{mpa.Config{Rev: 3}, mpa.ErrRevision, mpa.ErrRevision},
		{mpa.Config{MaxRev: 3}, mpa.ErrRevision, mpa.ErrRevision},
		{mpa.Config{IRD: 0x4000}, mpa.ErrDepth, mpa.ErrDepth},
		{mpa.Config{ORD: 0x4000}, mpa.ErrDepth, mpa.ErrDepth},
		{mpa.Config{IRD: mpa.NotNegotiated}, nil, mpa.ErrDepth},
		{mpa.Config{MinORD: mpa.NotNegotiated}, mpa.ErrDepth, mpa.ErrDepth},
		{mpa.Config{PrivateData: make([]byte, 509)}, mpa.ErrPrivateData, nil},
		{mpa.Config{Plain: true, PrivateData: make([]byte, 512)}, nil, nil},
		{mpa.Config{Rev: 1, PrivateData: make([]byte, 513)}, mpa.ErrPrivateData, nil},
	} {
		if _, err := mpa.NewInitiator(&tt.cfg); !errors.Is(err, tt.init) {
			t.Errorf("initiator %+v: %v", tt.cfg.Rev, err)
		}
		if _, err := mpa.NewResponder(&tt.cfg); !errors.Is(err, tt.resp) {
			t.Errorf("responder %+v: %v", tt.cfg.Rev, err)
		}
	}
}

// The second attempt asks for the same as the first one, as far as a plain Request can. There is no third
// attempt.
func TestFallbackConfig(t *testing.T) {
	i := initiator(t, mpa.Config{
		NoCRC: true, Markers: true, WantMarkers: true, IRD: 3, ORD: 5, PeerToPeer: true, RTR: mpa.RTRSend,
		PrivateData: []byte("first"),
	})
	if _, ok := i.Fallback(nil); ok {
		t.Error("a second attempt before the first")
	}
	i.AppendRequest(nil)
	if _, ok := i.Fallback([]byte("M")); ok {
		t.Error("a second attempt after a part of a Reply")
	}
	cfg, ok := i.Fallback(nil)
	want := mpa.Config{
		Rev: 1, Plain: true, NoCRC: true, Markers: true, WantMarkers: true, IRD: 3, ORD: 5, RTR: mpa.RTRSend,
		PrivateData: []byte("first"),
	}
	if !ok || !reflect.DeepEqual(cfg, want) {
		t.Fatalf("%+v, %v", cfg, ok)
	}
	i = initiator(t, cfg)
	if got := i.AppendRequest(nil); !bytes.Equal(got, unhex(t, reqHex+"800100056669727374")) {
		t.Errorf("second Request %x", got)
	}
	if _, ok := i.Fallback(nil); ok {
		t.Error("a third attempt")
	}
}
