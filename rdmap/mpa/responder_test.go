package mpa_test

import (
	"bytes"
	"errors"
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

// TestMinORD: a Request whose IRD is below MinORD is refused, and the Reply asks for it. The other reasons to refuse are
// in TestRequestMatrix.
func TestMinORD(t *testing.T) {
	r := responder(t, mpa.Config{IRD: 4, ORD: 64, MinORD: 32})
	req := unhex(t, reqHex+"5002000400100004")
	n, err := r.Input(req)
	e, ok := errors.AsType[*mpa.RefuseError](err)
	if !ok || n != len(req) || !errors.Is(e, mpa.ErrPeerIRD) || !strings.HasPrefix(e.Error(), "mpa: ") {
		t.Fatalf("Input = %d, %v", n, err)
	}
	if _, err := r.Accept(nil, nil); !errors.Is(err, mpa.ErrState) {
		t.Errorf("Accept: %v", err)
	}
	reply, err := r.Reject(nil, nil)
	if want := unhex(t, repHex+"7002000400040020"); err != nil || !bytes.Equal(reply, want) {
		t.Errorf("got  %x, %v\nwant %x", reply, err, want)
	}
	// A depth that is not negotiated is no reason.
	r = responder(t, mpa.Config{MinORD: 32})
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

// TestMachineStates: each machine takes one frame and no octet behind it, and an error is final. A malformed Request
// is not answered.
func TestMachineStates(t *testing.T) {
	const accepted = "5002000400100010"
	for _, tt := range []struct {
		name string
		wire string
		err  error // of the first call; nil: of the second
	}{
		{"good", accepted, nil},
		{"octets behind it", accepted + "00", mpa.ErrTrailing},
		{"revision 3", "5003000400100010", mpa.ErrRevision},
		{"no enhanced word", "50020000", mpa.ErrEnhanced},
	} {
		i, r := initiator(t, mpa.Config{IRD: 16, ORD: 16}), responder(t, mpa.Config{IRD: 16, ORD: 16})
		i.AppendRequest(nil)
		for key, m := range map[string]interface {
			Input(b []byte) (int, error)
			EOF(rest []byte) error
		}{repHex: i, reqHex: r} {
			wire := unhex(t, key+tt.wire)
			if e, ok := errors.AsType[*mpa.Error](m.EOF(wire[:9])); !ok || e.Code != mpa.CodeClosed || e.Got != 9 {
				t.Errorf("%s: the end after 9 octets: %v", tt.name, e)
			}
			_, err := m.Input(wire)
			if !errors.Is(err, tt.err) {
				t.Errorf("%s: %v, want %v", tt.name, err, tt.err)
			}
			_, again := m.Input(wire)
			if want := err; want == nil && !errors.Is(again, mpa.ErrState) || want != nil && (!errors.Is(again, want) || !errors.Is(m.EOF(nil), want)) {
				t.Errorf("%s, again: %v", tt.name, again)
			}
		}
		b, err := r.Accept(nil, nil)
		if _, again := r.Accept(nil, nil); (err == nil) != (tt.err == nil) || !errors.Is(again, mpa.ErrState) {
			t.Errorf("%s: Accept %x, %v, then %v", tt.name, b, err, again)
		}
		if b, err := r.Reject(nil, nil); !errors.Is(err, mpa.ErrState) || b != nil {
			t.Errorf("%s: Reject %x, %v", tt.name, b, err)
		}
	}
}
