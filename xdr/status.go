package xdr

import "strconv"

// Values of msg_type, the second word of every RPC message (RFC 5531
// Section 9).
const (
	MsgCall  = 0 // CALL
	MsgReply = 1 // REPLY
)

// RPCVersion is the value of rpcvers in every call of RFC 5531.
const RPCVersion = 2

// AcceptStat is accept_stat, the outcome of an accepted call (RFC 5531
// Section 9). The zero value is Success.
type AcceptStat uint32

// Values of [AcceptStat].
const (
	Success      AcceptStat = 0 // SUCCESS: results follow
	ProgUnavail  AcceptStat = 1 // PROG_UNAVAIL: program not served here
	ProgMismatch AcceptStat = 2 // PROG_MISMATCH: version not served; low and high follow
	ProcUnavail  AcceptStat = 3 // PROC_UNAVAIL: procedure unknown to the program
	GarbageArgs  AcceptStat = 4 // GARBAGE_ARGS: arguments do not decode
	SystemErr    AcceptStat = 5 // SYSTEM_ERR: out of memory, a fault of the handler
)

var acceptNames = [...]string{
	"SUCCESS", "PROG_UNAVAIL", "PROG_MISMATCH", "PROC_UNAVAIL", "GARBAGE_ARGS", "SYSTEM_ERR",
}

// String returns the RFC's spelling, or AcceptStat(0x2a) for an unknown value.
func (s AcceptStat) String() string { return enumName(acceptNames[:], "AcceptStat", uint32(s)) }

// RejectStat is reject_stat, why a call was denied (RFC 5531 Section 9).
type RejectStat uint32

// Values of [RejectStat].
const (
	RPCMismatch RejectStat = 0 // RPC_MISMATCH: rpcvers is not 2; low and high follow
	AuthError   RejectStat = 1 // AUTH_ERROR: an auth_stat follows
)

var rejectNames = [...]string{"RPC_MISMATCH", "AUTH_ERROR"}

// String returns the RFC's spelling, or RejectStat(0x2a) for an unknown value.
func (s RejectStat) String() string { return enumName(rejectNames[:], "RejectStat", uint32(s)) }

// AuthStat is auth_stat, why a caller was not authenticated (RFC 5531
// Section 9).
type AuthStat uint32

// Values of [AuthStat].
const (
	AuthOK           AuthStat = 0  // AUTH_OK
	AuthBadCred      AuthStat = 1  // AUTH_BADCRED: credential does not decode, or of an unknown flavour
	AuthRejectedCred AuthStat = 2  // AUTH_REJECTEDCRED: the caller must begin a new session
	AuthBadVerf      AuthStat = 3  // AUTH_BADVERF: verifier does not decode
	AuthTooWeak      AuthStat = 5  // AUTH_TOOWEAK: the procedure needs a stronger flavour
	AuthInvalidResp  AuthStat = 6  // AUTH_INVALIDRESP: bad verifier in a reply, found by the client
	AuthFailed       AuthStat = 7  // AUTH_FAILED: reason unknown, found by the client
	GSSCredProblem   AuthStat = 13 // RPCSEC_GSS_CREDPROBLEM
	GSSCtxProblem    AuthStat = 14 // RPCSEC_GSS_CTXPROBLEM
)

var authNames = [...]string{
	"AUTH_OK", "AUTH_BADCRED", "AUTH_REJECTEDCRED", "AUTH_BADVERF", "AUTH_REJECTEDVERF",
	"AUTH_TOOWEAK", "AUTH_INVALIDRESP", "AUTH_FAILED", "AUTH_KERB_GENERIC", "AUTH_TIMEEXPIRE",
	"AUTH_TKT_FILE", "AUTH_DECODE", "AUTH_NET_ADDR", "RPCSEC_GSS_CREDPROBLEM", "RPCSEC_GSS_CTXPROBLEM",
}

// String returns the RFC's spelling, or AuthStat(0x2a) for an unknown value.
func (s AuthStat) String() string { return enumName(authNames[:], "AuthStat", uint32(s)) }

// enumName returns names[v], or typ(0x…) when the table has no such name.
func enumName(names []string, typ string, v uint32) string {
	if uint64(v) < uint64(len(names)) && names[v] != "" {
		return names[v]
	}
	return typ + "(0x" + strconv.FormatUint(uint64(v), 16) + ")"
}
