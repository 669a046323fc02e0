package transport

import "github.com/stag-rdma/stag/xdr"

// gssProtected says whether a credential is RPCSEC_GSS with a service other than
// none: the body of such a call is protected as a whole and nothing in it may be
// reduced (RFC 8166 Section 8.2.2.3). A body that does not decode counts as
// protected.
//
//	octets  field of rpc_gss_cred_t (RFC 2203 Section 5.3.1)
//	4       version
//	4       gss_proc
//	4       seq_num
//	4       service: 1 none, 2 integrity, 3 privacy
func gssProtected(cred xdr.Auth) bool {
	if cred.Flavor != xdr.RPCSECGSS {
		return false
	}
	d := xdr.NewDecoder(cred.Body)
	d.Skip(12)
	return d.Uint32() != 1 || d.Err() != nil
}
