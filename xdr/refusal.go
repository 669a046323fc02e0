package xdr

import "errors"

// Refusal returns the reply that a server owes to a call before it looks at
// program, version and procedure, in the order of RFC 5531 Section 9: a wrong
// rpcvers, then bad authentication. err is what [CallHeader.Parse] returned.
//
//	RPCVers is not 2                    RPC_MISMATCH 2, 2
//	a credential above 400 octets       AUTH_BADCRED
//	a verifier above 400 octets         AUTH_BADVERF
//	what CheckAuth refuses              its auth_stat
//
// owed is false when the call may go on (err nil), and when it may not but
// gets no RPC reply, since it is not a decodable call (err not nil).
func (h *CallHeader) Refusal(err error) (r ReplyHeader, owed bool) {
	var stat AuthStat
	switch {
	case err != nil:
		stat = refuseLong(err)
	case h.RPCVers != RPCVersion:
		return ReplyHeader{XID: h.XID, Denied: true, Reject: RPCMismatch, Low: RPCVersion, High: RPCVersion}, true
	default:
		stat = h.CheckAuth()
	}
	if stat == AuthOK {
		return ReplyHeader{}, false
	}
	return ReplyHeader{XID: h.XID, Denied: true, Reject: AuthError, AuthStat: stat}, true
}

// refuseLong returns the auth_stat for a body beyond its bound, AuthOK for any
// other error.
func refuseLong(err error) AuthStat {
	e, ok := errors.AsType[*DecodeError](err)
	switch {
	case !ok || !errors.Is(e.Err, ErrRange):
		return AuthOK
	case e.Field == "cred":
		return AuthBadCred
	case e.Field == "verf":
		return AuthBadVerf
	}
	return AuthOK
}

// CheckAuth returns AuthOK when the credential and verifier are well formed
// and of a flavour that this project serves, else the auth_stat to refuse the
// call with. It does not say what the caller may do.
//
//	AUTH_NONE    empty body, else AUTH_BADCRED
//	AUTH_SYS     a body that parses, else AUTH_BADCRED
//	AUTH_SHORT   AUTH_REJECTEDCRED: we hand out no such handles
//	any other    AUTH_BADCRED (Choice: RFC 5531 names no code for it)
//
// The verifier of both accepted flavours is an empty AUTH_NONE (RFC 5531
// Appendix A), else AUTH_BADVERF.
func (h *CallHeader) CheckAuth() AuthStat {
	switch h.Cred.Flavor {
	case AuthNone:
		if len(h.Cred.Body) != 0 {
			return AuthBadCred
		}
	case AuthSys:
		if !validSysCred(h.Cred.Body) {
			return AuthBadCred
		}
	case AuthShort:
		return AuthRejectedCred
	default:
		return AuthBadCred
	}
	if h.Verf.Flavor != AuthNone || len(h.Verf.Body) != 0 {
		return AuthBadVerf
	}
	return AuthOK
}

// validSysCred tells whether body parses as a SysCred, without building one.
func validSysCred(body []byte) bool {
	d := NewDecoder(body)
	d.Skip(4)
	d.Opaque(MaxMachineName)
	d.Skip(8)
	d.Skip(4 * d.Count(MaxGIDs, 4))
	return d.err == nil && len(d.b) == 0 && len(body) <= MaxAuthBody
}
