package xdr

import (
	"encoding/hex"
	"testing"
)

func TestCheckAuth(t *testing.T) {
	c := goldenCred()
	for _, tc := range []struct {
		name       string
		cred, verf Auth
		want       AuthStat
	}{
		{"none", Auth{}, Auth{}, AuthOK},
		{"none with a body", Auth{Body: make([]byte, 4)}, Auth{}, AuthBadCred},
		{"sys", c.Auth(), Auth{}, AuthOK},
		{"sys, no body", Auth{Flavor: AuthSys}, Auth{}, AuthBadCred},
		{"sys, verifier not none", c.Auth(), Auth{Flavor: AuthSys}, AuthBadVerf},
		{"none, verifier with a body", Auth{}, Auth{Body: make([]byte, 4)}, AuthBadVerf},
		{"short", Auth{Flavor: AuthShort}, Auth{}, AuthRejectedCred},
		{"dh", Auth{Flavor: AuthDH}, Auth{}, AuthBadCred},
		{"gss", Auth{Flavor: RPCSECGSS, Body: make([]byte, 20)}, Auth{}, AuthBadCred},
		{"unknown", Auth{Flavor: 390003}, Auth{}, AuthBadCred},
	} {
		h := CallHeader{RPCVers: 2, Cred: tc.cred, Verf: tc.verf}
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
			var h CallHeader
			d := NewDecoder(unhex(t, tc.call))
			r, owed := h.Refusal(h.Parse(&d))
			got := ""
			if owed {
				got = hex.EncodeToString(AppendReply(nil, &r))
			}
			if got != tc.want {
				t.Errorf("answer %q, want %q", got, tc.want)
			}
		})
	}
}
