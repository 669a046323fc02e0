package xdr

import (
	"fmt"
	"testing"
)

func TestStatusStrings(t *testing.T) {
	for _, tc := range []struct {
		v    fmt.Stringer
		want string
	}{
		{Success, "SUCCESS"},
		{SystemErr, "SYSTEM_ERR"},
		{AcceptStat(6), "AcceptStat(0x6)"},
		{RPCMismatch, "RPC_MISMATCH"},
		{AuthError, "AUTH_ERROR"},
		{RejectStat(0x2a), "RejectStat(0x2a)"},
		{AuthOK, "AUTH_OK"},
		{AuthTooWeak, "AUTH_TOOWEAK"},
		{GSSCtxProblem, "RPCSEC_GSS_CTXPROBLEM"},
		{AuthStat(1<<32 - 1), "AuthStat(0xffffffff)"},
		{AuthNone, "AUTH_NONE"},
		{AuthDH, "AUTH_DH"},
		{AuthFlavor(4), "AuthFlavor(0x4)"},
		{RPCSECGSS, "RPCSEC_GSS"},
		{AuthFlavor(390003), "AuthFlavor(0x5f373)"},
	} {
		if got := tc.v.String(); got != tc.want {
			t.Errorf("String = %q, want %q", got, tc.want)
		}
	}
}
