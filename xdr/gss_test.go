package xdr_test

import (
	"testing"

	"github.com/stag-rdma/stag/xdr"
)

// gssBody is an rpc_gss_cred_t with a handle of 4 octets.
func gssBody(vers, proc, service uint32) []byte {
	b := xdr.AppendUint32(xdr.AppendUint32(nil, vers), proc)
	b = xdr.AppendUint32(xdr.AppendUint32(b, 7), service)
	return xdr.AppendOpaque(b, []byte("hndl"))
}

// TestProtected: nothing of RPCSEC_GSS is open but data under the service none.
func TestProtected(t *testing.T) {
	for _, flavor := range []xdr.AuthFlavor{xdr.AuthNone, xdr.AuthSys, xdr.AuthShort, xdr.AuthDH, 7, 390003} {
		if a := (xdr.Auth{Flavor: flavor, Body: gssBody(1, 1, 3)}); a.Protected() {
			t.Errorf("%v: protected", flavor)
		}
	}
	for vers := range uint32(6) {
		for proc := range uint32(6) {
			for service := range uint32(6) {
				a := xdr.Auth{Flavor: xdr.RPCSECGSS, Body: gssBody(vers, proc, service)}
				open := vers >= 1 && vers <= 3 && proc == 0 && service == 1
				if a.Protected() == open {
					t.Errorf("version %d, gss_proc %d, service %d: protected %v", vers, proc, service, !open)
				}
			}
		}
	}
	whole := gssBody(1, 0, 1)
	for n := range len(whole) {
		if a := (xdr.Auth{Flavor: xdr.RPCSECGSS, Body: whole[:n]}); !a.Protected() {
			t.Errorf("%d octets of a credential: not protected", n)
		}
	}
	if a := (xdr.Auth{Flavor: xdr.RPCSECGSS, Body: append(whole, 0, 0, 0, 0)}); !a.Protected() {
		t.Error("a credential with octets behind it: not protected")
	}
}
