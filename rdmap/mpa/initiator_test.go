package mpa_test

import (
	"bytes"
	"errors"
	"reflect"
	"testing"

	"github.com/stag-rdma/stag/rdmap/mpa"
)

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

func TestInitiatorReply(t *testing.T) {
	base := mpa.Config{IRD: 16, ORD: 8}
	p2p := mpa.Config{IRD: 16, ORD: 8, PeerToPeer: true}
	plain := mpa.Config{IRD: 16, ORD: 8, Plain: true}
	ok := func(n mpa.Negotiation) *mpa.Negotiation { return &n }
	for _, tt := range []struct {
		name string
		cfg  mpa.Config
		wire string
		want *mpa.Negotiation
		err  error    // a sentinel of FormatError
		code mpa.Code // of an Error
	}{
		{
			name: "accept", cfg: base, wire: "5002000400080010",
			want: ok(mpa.Negotiation{Rev: 2, Enhanced: true, CRC: true, IRD: 16, ORD: 8, PeerIRD: 8, PeerORD: 16}),
		},
		{
			name: "ORD clamped", cfg: base, wire: "5002000400050000",
			want: ok(mpa.Negotiation{Rev: 2, Enhanced: true, CRC: true, IRD: 16, ORD: 5, PeerIRD: 5}),
		},
		{name: "ORD too deep", cfg: base, wire: "5002000400080011", code: mpa.CodeIRD},
		{
			name: "ORD not negotiated", cfg: base, wire: "5002000400083fff",
			want: ok(mpa.Negotiation{Rev: 2, Enhanced: true, CRC: true, IRD: 16, ORD: 8, PeerIRD: 8, PeerORD: mpa.NotNegotiated}),
		},
		{
			name: "IRD not negotiated", cfg: base, wire: "500200043fff0001",
			want: ok(mpa.Negotiation{Rev: 2, Enhanced: true, CRC: true, IRD: 16, ORD: 8, PeerIRD: mpa.NotNegotiated, PeerORD: 1}),
		},
		{
			name: "we left both open", cfg: mpa.Config{IRD: mpa.NotNegotiated, ORD: mpa.NotNegotiated}, wire: "5002000400050006",
			want: ok(mpa.Negotiation{Rev: 2, Enhanced: true, CRC: true, IRD: mpa.NotNegotiated, ORD: mpa.NotNegotiated, PeerIRD: 5, PeerORD: 6}),
		},
		{
			name: "CRC by our wish", cfg: base, wire: "1002000400080000",
			want: ok(mpa.Negotiation{Rev: 2, Enhanced: true, CRC: true, IRD: 16, ORD: 8, PeerIRD: 8}),
		},
		{
			name: "CRC by their wish", cfg: mpa.Config{NoCRC: true}, wire: "5002000400000000",
			want: ok(mpa.Negotiation{Rev: 2, Enhanced: true, CRC: true}),
		},
		{
			name: "no CRC", cfg: mpa.Config{NoCRC: true}, wire: "1002000400000000",
			want: ok(mpa.Negotiation{Rev: 2, Enhanced: true}),
		},
		{
			name: "A unasked", cfg: base, wire: "50020004c008c000",
			want: ok(mpa.Negotiation{Rev: 2, Enhanced: true, CRC: true, IRD: 16, ORD: 8, PeerIRD: 8, UnaskedPeerToPeer: true}),
		},
		{
			name: "RTR write", cfg: p2p, wire: "50020004c008c000",
			want: ok(mpa.Negotiation{Rev: 2, Enhanced: true, CRC: true, IRD: 16, ORD: 8, PeerIRD: 8, PeerToPeer: true, RTR: mpa.RTRWrite}),
		},
		{
			name: "RTR read", cfg: p2p, wire: "5002000480014000",
			want: ok(mpa.Negotiation{Rev: 2, Enhanced: true, CRC: true, IRD: 16, ORD: 1, PeerIRD: 1, PeerToPeer: true, RTR: mpa.RTRRead}),
		},
		{name: "RTR read without a slot", cfg: p2p, wire: "5002000480004000", code: mpa.CodeRTR},
		{name: "RTR send only, we cannot", cfg: p2p, wire: "50020004c0080000", code: mpa.CodeRTR},
		{name: "RTR none", cfg: p2p, wire: "5002000480080000", code: mpa.CodeRTR},
		{name: "A not echoed", cfg: p2p, wire: "500200040008c000", code: mpa.CodeRTR},
		{name: "depth before RTR", cfg: p2p, wire: "5002000480083ffe", code: mpa.CodeIRD},
		{name: "S missing", cfg: base, wire: "50020000"[:2] + "020000", err: mpa.ErrEnhanced},
		{name: "S=0 for S=1", cfg: base, wire: "40020000", err: mpa.ErrEnhanced},
		{name: "rev 1 for enhanced", cfg: base, wire: "5001000400080010", err: mpa.ErrEnhanced},
		{name: "S=1 for S=0", cfg: plain, wire: "5002000400080010", err: mpa.ErrEnhanced},
		{
			name: "plain", cfg: plain, wire: "40020000",
			want: ok(mpa.Negotiation{Rev: 2, CRC: true, IRD: 16, ORD: 1, PeerIRD: mpa.NotNegotiated, PeerORD: mpa.NotNegotiated}),
		},
		{
			name: "lower revision", cfg: plain, wire: "40010000",
			want: ok(mpa.Negotiation{Rev: 1, CRC: true, IRD: 16, ORD: 1, PeerIRD: mpa.NotNegotiated, PeerORD: mpa.NotNegotiated}),
		},
		{name: "higher revision", cfg: mpa.Config{Rev: 1}, wire: "40020000", err: mpa.ErrRevision},
		{name: "rev 3", cfg: base, wire: "4003000400080010", err: mpa.ErrRevision},
		{name: "markers", cfg: base, wire: "d002000400080010", err: mpa.ErrMarkers},
		{
			name: "markers supported", cfg: mpa.Config{Markers: true}, wire: "d002000400000000",
			want: ok(mpa.Negotiation{Rev: 2, Enhanced: true, CRC: true, SendMarkers: true}),
		},
		{name: "octets after it", cfg: base, wire: "500200040008001000", err: mpa.ErrTrailing},
	} {
		t.Run(tt.name, func(t *testing.T) {
			i := initiator(t, tt.cfg)
			i.AppendRequest(nil)
			wire := unhex(t, repHex+tt.wire)
			n, err := i.Input(wire)
			switch {
			case tt.want != nil:
				tt.want.PrivateData = nil
				got := *i.Result()
				got.PrivateData = nil
				if err != nil || n != len(wire) || !reflect.DeepEqual(got, *tt.want) {
					t.Fatalf("got %+v, %v\nwant %+v", got, err, *tt.want)
				}
				if _, err := i.Input(wire); !errors.Is(err, mpa.ErrState) {
					t.Errorf("second Reply: %v", err)
				}
			case tt.err != nil:
				if _, ok := errors.AsType[*mpa.FormatError](err); !ok || !errors.Is(err, tt.err) {
					t.Fatalf("got %v, want %v", err, tt.err)
				}
			default:
				e, ok := errors.AsType[*mpa.Error](err)
				if !ok || e.Code != tt.code || !e.Terminate() {
					t.Fatalf("got %v, want %v", err, tt.code)
				}
			}
			if err != nil {
				if _, again := i.Input(nil); !errors.Is(again, err) || !errors.Is(i.EOF(nil), err) {
					t.Errorf("not final: %v", again)
				}
			}
		})
	}
}

func TestInitiatorRejected(t *testing.T) {
	for _, tt := range []struct {
		wire     string
		enhanced bool
		ird, ord uint16
		pd       string
	}{
		{"7002000400040020", true, 4, 32, ""},
		{"e0010000", false, 0, 0, ""},
		{"30020000", false, 0, 0, ""},
		{"3002000212ab", false, 0, 0, "12ab"},
		{"2003000212ab", false, 0, 0, "12ab"},
		{"3002000600010002beef", true, 1, 2, "beef"},
	} {
		i := initiator(t, mpa.Config{IRD: 1})
		i.AppendRequest(nil)
		wire := append(unhex(t, repHex+tt.wire), "and more"...)
		_, err := i.Input(wire)
		e, ok := errors.AsType[*mpa.RejectError](err)
		if !ok || e.Reply.Enhanced != tt.enhanced || e.Reply.Word.IRD != tt.ird || e.Reply.Word.ORD != tt.ord {
			t.Fatalf("%s: %+v", tt.wire, err)
		}
		clear(wire)
		if !bytes.Equal(e.Reply.PrivateData, unhex(t, tt.pd)) {
			t.Errorf("%s: private data %x", tt.wire, e.Reply.PrivateData)
		}
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
	i.AppendRequest(nil)
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
