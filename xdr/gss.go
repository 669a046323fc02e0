package xdr

// Protected reports whether the body of a call with this credential is not to be looked
// into: RPCSEC_GSS with a service other than none, where it is a checksummed or encrypted
// whole (RFC 2203 Section 5.3.2), and RPCSEC_GSS control messages, whose arguments are
// tokens (RFC 2203 Section 5.2.2) whatever procedure they name. A credential that does
// not decode, or of another version than those known, counts as protected.
//
//	octets  field of rpc_gss_cred_t (RFC 2203 Section 5.3.1)
//	4       version: 1; 2 (RFC 5403) and 3 (RFC 7861) have the same fields
//	4       gss_proc: 0 data, else a control message
//	4       seq_num
//	4       service: 1 none, 2 integrity, 3 privacy
//	4+      handle
func (a *Auth) Protected() bool {
	return a.Flavor == RPCSECGSS && a.protected()
}

// protected is Protected for a credential of RPCSEC_GSS.
func (a *Auth) protected() bool {
	d := NewDecoder(a.Body)
	vers, proc := d.Uint32(), d.Uint32()
	d.Skip(4)
	service := d.Uint32()
	d.Opaque(MaxAuthBody)
	return d.End() != nil || vers < 1 || vers > 3 || proc != 0 || service != 1
}
