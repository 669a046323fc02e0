package mpa_test

import (
	"bytes"
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/stag-rdma/stag/rdmap/mpa"
)

func responder(t testing.TB, cfg mpa.Config) *mpa.Responder {
	t.Helper()
	r, err := mpa.NewResponder(&cfg)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestResponderAccept(t *testing.T) {
	base := mpa.Config{IRD: 16, ORD: 8}
	for _, tt := range []struct {
		name  string
		cfg   mpa.Config
		req   string
		reply string
		want  mpa.Negotiation
	}{
		{
			"vector",
			mpa.Config{IRD: 16, ORD: 8, RTR: mpa.RTRWrite},
			"5002000cc010c010" + pdHex, "5002000480108008",
			mpa.Negotiation{Rev: 2, Enhanced: true, CRC: true, PeerToPeer: true, RTR: mpa.RTRWrite, IRD: 16, ORD: 8, PeerIRD: 16, PeerORD: 16},
		},
		{
			"plain rev 1", base, "40010000", "40010000",
			mpa.Negotiation{Rev: 1, CRC: true, IRD: 16, ORD: 1, PeerIRD: mpa.NotNegotiated, PeerORD: mpa.NotNegotiated},
		},
		{
			"plain rev 2", base, "40020000", "40020000",
			mpa.Negotiation{Rev: 2, CRC: true, IRD: 16, ORD: 1, PeerIRD: mpa.NotNegotiated, PeerORD: mpa.NotNegotiated},
		},
		{
			"S at rev 1 is reserved", base, "50010000", "40010000",
			mpa.Negotiation{Rev: 1, CRC: true, IRD: 16, ORD: 1, PeerIRD: mpa.NotNegotiated, PeerORD: mpa.NotNegotiated},
		},
		{
			"linux client", base, "1002000c00800000" + pdHex, "5002000400000008",
			mpa.Negotiation{Rev: 2, Enhanced: true, CRC: true, IRD: 0, ORD: 8, PeerIRD: 128, PeerORD: 0},
		},
		{
			"C echoed",
			mpa.Config{NoCRC: true},
			"5002000400000000", "5002000400000000",
			mpa.Negotiation{Rev: 2, Enhanced: true, CRC: true},
		},
		{
			"no CRC",
			mpa.Config{NoCRC: true},
			"1002000400000000", "1002000400000000",
			mpa.Negotiation{Rev: 2, Enhanced: true},
		},
		{
			"R and reserved bits in a Request", base, "7f02000400040004", "5002000400040004",
			mpa.Negotiation{Rev: 2, Enhanced: true, CRC: true, IRD: 4, ORD: 4, PeerIRD: 4, PeerORD: 4},
		},
		{
			"clamped both ways", base, "5002000400053ffe", "5002000400100005",
			mpa.Negotiation{Rev: 2, Enhanced: true, CRC: true, IRD: 16, ORD: 5, PeerIRD: 5, PeerORD: 0x3ffe},
		},
		{
			"not negotiated", base, "500200043fff3fff", "500200043fff3fff",
			mpa.Negotiation{Rev: 2, Enhanced: true, CRC: true, IRD: 16, ORD: 8, PeerIRD: mpa.NotNegotiated, PeerORD: mpa.NotNegotiated},
		},
		{
			"ORD not negotiated", base, "5002000400033fff", "500200043fff0003",
			mpa.Negotiation{Rev: 2, Enhanced: true, CRC: true, IRD: 16, ORD: 3, PeerIRD: 3, PeerORD: mpa.NotNegotiated},
		},
		{
			"B C D without A", base, "500200044004c004", "5002000400040004",
			mpa.Negotiation{Rev: 2, Enhanced: true, CRC: true, IRD: 4, ORD: 4, PeerIRD: 4, PeerORD: 4},
		},
		{
			"RTR read raises IRD", base, "5002000480044000", "5002000480014004",
			mpa.Negotiation{Rev: 2, Enhanced: true, CRC: true, PeerToPeer: true, RTR: mpa.RTRRead, IRD: 1, ORD: 4, PeerIRD: 4},
		},
		{
			"RTR read with IRD 0 here",
			mpa.Config{},
			"5002000480004005", "5002000480014000",
			mpa.Negotiation{Rev: 2, Enhanced: true, CRC: true, PeerToPeer: true, RTR: mpa.RTRRead, IRD: 1, PeerORD: 5},
		},
		{
			"RTR send alone", base, "50020004c0040004", "50020004c0040004",
			mpa.Negotiation{Rev: 2, Enhanced: true, CRC: true, PeerToPeer: true, RTR: mpa.RTRSend, IRD: 4, ORD: 4, PeerIRD: 4, PeerORD: 4},
		},
		{
			"RTR none matches",
			mpa.Config{RTR: mpa.RTRWrite, IRD: 4, ORD: 4},
			"50020004c0044004", "5002000480048004",
			mpa.Negotiation{Rev: 2, Enhanced: true, CRC: true, PeerToPeer: true, RTR: mpa.RTRWrite, IRD: 4, ORD: 4, PeerIRD: 4, PeerORD: 4},
		},
		{
			"markers supported",
			mpa.Config{Markers: true},
			"d002000400000000", "5002000400000000",
			mpa.Negotiation{Rev: 2, Enhanced: true, CRC: true, SendMarkers: true},
		},
		{
			"markers wanted",
			mpa.Config{WantMarkers: true},
			"5002000400000000", "d002000400000000",
			mpa.Negotiation{Rev: 2, Enhanced: true, CRC: true, RecvMarkers: true},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := responder(t, tt.cfg)
			req := unhex(t, reqHex+tt.req)
			if n, err := r.Input(req); n != len(req) || err != nil {
				t.Fatalf("Input = %d, %v", n, err)
			}
			clear(req) // the machine has copied what it keeps
			reply, err := r.Accept(dirty(64), nil)
			if want := unhex(t, repHex+tt.reply); err != nil || !bytes.Equal(reply, want) {
				t.Fatalf("got  %x, %v\nwant %x", reply, err, want)
			}
			got := *r.Result()
			if want := r.Request().PrivateData; !bytes.Equal(got.PrivateData, want) {
				t.Errorf("private data %x, want %x", got.PrivateData, want)
			}
			got.PrivateData = nil
			if !reflect.DeepEqual(got, tt.want) {
				t.Errorf("got  %+v\nwant %+v", got, tt.want)
			}
			if _, err := r.Accept(nil, nil); !errors.Is(err, mpa.ErrState) {
				t.Errorf("second Accept: %v", err)
			}
		})
	}
}

func TestResponderRefuse(t *testing.T) {
	for _, tt := range []struct {
		name  string
		cfg   mpa.Config
		req   string
		cause error
		reply string
	}{
		{"markers", mpa.Config{IRD: 4, ORD: 4}, "d002000400040004", mpa.ErrMarkers, "7002000400040004"},
		{"markers, rev 1", mpa.Config{WantMarkers: true}, "c0010000", mpa.ErrMarkers, "60010000"},
		{"plain", mpa.Config{RefusePlain: true}, "40020000", mpa.ErrPlain, "60020000"},
		{"rev 1", mpa.Config{RefusePlain: true}, "40010000", mpa.ErrPlain, "60010000"},
		{"IRD too low", mpa.Config{IRD: 4, ORD: 64, MinORD: 32}, "5002000400100004", mpa.ErrPeerIRD, "7002000400040020"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := responder(t, tt.cfg)
			req := unhex(t, reqHex+tt.req)
			n, err := r.Input(req)
			e, ok := errors.AsType[*mpa.RefuseError](err)
			if !ok || n != len(req) || !errors.Is(e, tt.cause) || !strings.HasPrefix(e.Error(), "mpa: ") {
				t.Fatalf("Input = %d, %v", n, err)
			}
			if _, err := r.Accept(nil, nil); !errors.Is(err, mpa.ErrState) {
				t.Errorf("Accept: %v", err)
			}
			reply, err := r.Reject(nil, nil)
			if want := unhex(t, repHex+tt.reply); err != nil || !bytes.Equal(reply, want) {
				t.Errorf("got  %x, %v\nwant %x", reply, err, want)
			}
		})
	}
	// MinORD ignores a depth that is not negotiated.
	r := responder(t, mpa.Config{MinORD: 32})
	if _, err := r.Input(unhex(t, reqHex+"500200043fff0000")); err != nil {
		t.Errorf("%v", err)
	}
}

func TestResponderReject(t *testing.T) {
	r := responder(t, mpa.Config{IRD: 4, ORD: 4})
	if _, err := r.Reject(nil, nil); !errors.Is(err, mpa.ErrState) {
		t.Errorf("Reject before the Request: %v", err)
	}
	if _, err := r.Input(unhex(t, reqHex+"5002000400030002")); err != nil {
		t.Fatal(err)
	}
	big := make([]byte, 509)
	if b, err := r.Accept([]byte("x"), big); !errors.Is(err, mpa.ErrPrivateData) || string(b) != "x" {
		t.Errorf("Accept of 509 octets: %v", err)
	}
	if b, err := r.Reject([]byte("x"), big); !errors.Is(err, mpa.ErrPrivateData) || string(b) != "x" {
		t.Errorf("Reject of 509 octets: %v", err)
	}
	got, err := r.Reject(nil, []byte("no"))
	if want := unhex(t, repHex+"70020006000200036e6f"); err != nil || !bytes.Equal(got, want) {
		t.Errorf("got  %x, %v\nwant %x", got, err, want)
	}
	if _, err := r.Input(nil); err == nil {
		t.Error("Input after Reject")
	}
}

func TestResponderMalformed(t *testing.T) {
	for wire, cause := range map[string]error{
		reqHex + "4001000000":   mpa.ErrTrailing,
		repHex:                  mpa.ErrRole,
		"16030100":              mpa.ErrKey, // TLS
		reqHex + "40030000":     mpa.ErrRevision,
		reqHex + "100200021234": mpa.ErrEnhanced,
		reqHex + "40020258":     mpa.ErrPrivateData,
	} {
		r := responder(t, mpa.Config{})
		_, err := r.Input(unhex(t, wire))
		if _, ok := errors.AsType[*mpa.FormatError](err); !ok || !errors.Is(err, cause) {
			t.Errorf("%s: %v, want %v", wire, err, cause)
		}
		if _, again := r.Input(nil); !errors.Is(again, err) || !errors.Is(r.EOF(nil), err) {
			t.Errorf("not final: %v", again)
		}
		if b, err := r.Reject(nil, nil); !errors.Is(err, mpa.ErrState) || b != nil {
			t.Errorf("%s: Reply to a malformed Request: %x, %v", wire, b, err)
		}
	}
}

func TestResponderSplit(t *testing.T) {
	r := responder(t, mpa.Config{})
	wire := unhex(t, reqHex+"5002000c00100010"+pdHex)
	for cut := range wire {
		if n, err := r.Input(wire[:cut]); n != 0 || err != nil {
			t.Fatalf("cut at %d: %d, %v", cut, n, err)
		}
	}
	if e, ok := errors.AsType[*mpa.Error](r.EOF(wire[:9])); !ok || e.Code != mpa.CodeClosed || e.Got != 9 {
		t.Errorf("EOF = %v", e)
	}
	if n, err := r.Input(wire); n != len(wire) || err != nil {
		t.Fatalf("%d, %v", n, err)
	}
	if _, err := r.Input(wire); !errors.Is(err, mpa.ErrState) {
		t.Errorf("second Request: %v", err)
	}
}

// The Reply tells a peer of the RDMA Consortium which revision is accepted (RFC 5044 Appendix C), and
// refuses it.
func TestResponderRevision0(t *testing.T) {
	r := responder(t, mpa.Config{IRD: 4, ORD: 4, Markers: true, WantMarkers: true, MinORD: 3})
	wire := unhex(t, reqHex+"d0000002abcd")
	n, err := r.Input(wire)
	if _, refused := errors.AsType[*mpa.RefuseError](err); n != len(wire) || !refused || !errors.Is(err, mpa.ErrRevision) {
		t.Fatalf("%d, %v", n, err)
	}
	clear(wire)
	if got := r.Request().PrivateData; !bytes.Equal(got, []byte{0xab, 0xcd}) {
		t.Errorf("private data %x changed with the input, want a copy", got)
	}
	if _, err := r.Accept(nil, nil); !errors.Is(err, mpa.ErrState) {
		t.Errorf("Accept: %v", err)
	}
	if got, err := r.Reject(nil, []byte("no")); err != nil || !bytes.Equal(got, unhex(t, repHex+"600100026e6f")) {
		t.Errorf("Reject: %x, %v", got, err)
	}
}
