package xdr_test

import (
	"fmt"
	"testing"

	"github.com/stag-rdma/stag/xdr"
)

func TestStatusStrings(t *testing.T) {
	for _, tc := range []struct {
		v    fmt.Stringer
		want string
	}{
		{xdr.Success, "SUCCESS"},
		{xdr.SystemErr, "SYSTEM_ERR"},
		{xdr.AcceptStat(6), "AcceptStat(0x6)"},
		{xdr.RPCMismatch, "RPC_MISMATCH"},
		{xdr.AuthError, "AUTH_ERROR"},
		{xdr.RejectStat(0x2a), "RejectStat(0x2a)"},
		{xdr.AuthOK, "AUTH_OK"},
		{xdr.AuthTooWeak, "AUTH_TOOWEAK"},
		{xdr.GSSCtxProblem, "RPCSEC_GSS_CTXPROBLEM"},
		{xdr.AuthStat(1<<32 - 1), "AuthStat(0xffffffff)"},
		{xdr.AuthNone, "AUTH_NONE"},
		{xdr.AuthDH, "AUTH_DH"},
		{xdr.AuthFlavor(4), "AuthFlavor(0x4)"},
		{xdr.RPCSECGSS, "RPCSEC_GSS"},
		{xdr.AuthFlavor(390003), "AuthFlavor(0x5f373)"},
	} {
		if got := tc.v.String(); got != tc.want {
			t.Errorf("String = %q, want %q", got, tc.want)
		}
	}
}
