package transport

import "github.com/stag-rdma/stag/xdr"

// gssProtected says whether nothing in a call or its reply may be reduced, nor looked
// for, since RPCSEC_GSS protects the body as a whole (RFC 8166 Section 8.2.2.3).
func gssProtected(cred xdr.Auth) bool { return cred.Protected() }
