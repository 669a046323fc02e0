package xdr_test

import (
	"encoding/hex"
	"testing"

	"github.com/stag-rdma/stag/xdr"
)

func TestCheckAuth(t *testing.T) {
	c := goldenCred()
	for _, tc := range []struct {
		name       string
		cred, verf xdr.Auth
		want       xdr.AuthStat
	}{
		{"none", xdr.Auth{}, xdr.Auth{}, xdr.AuthOK},
		{"none with a body", xdr.Auth{Body: make([]byte, 4)}, xdr.Auth{}, xdr.AuthBadCred},
		{"sys", c.Auth(), xdr.Auth{}, xdr.AuthOK},
		{"sys, no body", xdr.Auth{Flavor: xdr.AuthSys}, xdr.Auth{}, xdr.AuthBadCred},
		{"sys, verifier not none", c.Auth(), xdr.Auth{Flavor: xdr.AuthSys}, xdr.AuthBadVerf},
		{"none, verifier with a body", xdr.Auth{}, xdr.Auth{Body: make([]byte, 4)}, xdr.AuthBadVerf},
		{"short", xdr.Auth{Flavor: xdr.AuthShort}, xdr.Auth{}, xdr.AuthRejectedCred},
		{"dh", xdr.Auth{Flavor: xdr.AuthDH}, xdr.Auth{}, xdr.AuthBadCred},
		{"gss", xdr.Auth{Flavor: xdr.RPCSECGSS, Body: make([]byte, 20)}, xdr.Auth{}, xdr.AuthBadCred},
		{"unknown", xdr.Auth{Flavor: 390003}, xdr.Auth{}, xdr.AuthBadCred},
	} {
		h := xdr.CallHeader{RPCVers: 2, Cred: tc.cred, Verf: tc.verf}
		if got := h.CheckAuth(); got != tc.want {
			t.Errorf("%s: %v, want %v", tc.name, got, tc.want)
		}
	}
}

// From octets to the octets of the answer.
func TestRefusal(t *testing.T) {
	const (
		head = "01020304 00000000 00000002 000186a3 00000003 00000000"
		none = "00000000 00000000"
	)
	for _, tc := range []struct{ name, call, want string }{
		{"fine", goldenCall, ""},
		{"rpcvers 3", "01020304 00000000 00000003", goldenRPCMis},
		{"rpcvers before auth", "01020304 00000000 00000001 ffffffff", goldenRPCMis},
		{"short handle", head + "00000002 00000000" + none, "0102030400000001000000010000000100000002"},
		{"cred too long", head + "00000001 00000191", "0102030400000001000000010000000100000001"},
		{"verf too long", head + none + "00000000 00000191", "0102030400000001000000010000000100000003"},
		{"cred cut: no reply", head + "00000001 00000190", ""},
		{"a reply: no reply", "01020304 00000001", ""},
		{"empty: no reply", "", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var h xdr.CallHeader
			d := xdr.NewDecoder(unhex(t, tc.call))
			r, owed := h.Refusal(h.Parse(&d))
			got := ""
			if owed {
				got = hex.EncodeToString(xdr.AppendReply(nil, &r))
			}
			if got != tc.want {
				t.Errorf("answer %q, want %q", got, tc.want)
			}
		})
	}
}
