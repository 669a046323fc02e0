package judge

// rpcRules are the rules RPC-*: ONC RPC and XDR (RFC 5531, RFC 4506) as far as they are judged inside
// RPC-over-RDMA.
var rpcRules = []*Rule{
	{"RPC-001", "RFC 5531 Section 9", Must, Error, "msg_type is CALL or REPLY.", "rpc-nfs3 2", shifting | losing},
	{"RPC-002", "RFC 5531 Section 9", Must, Error, "rpcvers of a call is 2.", "rpc-nfs3 2", shifting | losing},
	{"RPC-003", "RFC 5531 Section 8.2", Must, Error, "The body of a credential or verifier has at most 400 octets.", "rpc-nfs3 2", wrongLength | shifting | losing},
	{"RPC-004", "RFC 5531 Section 9", Must, Error, "The header of a call is whole.", "rpc-nfs3 2", wrongLength | shifting | losing},
	{"RPC-005", "RFC 4506 Section 4.3", Must, Error, "reply_stat, accept_stat, reject_stat and auth_stat have values that the RFC defines.", "rpc-nfs3 2", shifting | losing},
	{"RPC-006", "RFC 5531 Section 9", Must, Error, "The header of a reply is whole.", "rpc-nfs3 2", wrongLength | shifting | losing},
	{"RPC-007", "RFC 5531 Section 10.1", Should, Warning, "The body of AUTH_NONE is empty.", "rpc-nfs3 2.2", shifting},
	{"RPC-008", "RFC 5531 Appendix A", Must, Error, "The body of AUTH_SYS has a machine name of at most 255 octets, two ids, at most 16 groups, and nothing else.", "rpc-nfs3 2.2", shifting},
	{"RPC-009", "RFC 5531 Appendix A", Should, Warning, "The verifier of a call with AUTH_SYS is AUTH_NONE.", "rpc-nfs3 2.2", 0},
	{"RPC-010", "RFC 5531 Section 9", Must, Error, "The versions that PROG_MISMATCH and RPC_MISMATCH offer are a range without the one that they refuse.", "rpc-nfs3 2", 0},
	{"RPC-011", "RFC 5531 Section 9", Must, Error, "RPC_MISMATCH answers the calls with an rpcvers other than 2, and no others.", "rpc-nfs3 2", executed | shifting},
	{"RPC-012", "RFC 5531 Section 12.1", Should, Error, "Procedure 0 takes no arguments and returns no results.", "rpc-nfs3 2", wrongLength | shifting},
	{"RPC-013", "RFC 5531 Section 9", Must, Warning, "Nothing follows the last field of a message.", "rpc-nfs3 1", wrongLength | shifting},
	{"RPC-014", "RFC 4506 Section 3", Must, Warning, "Pad octets are 0.", "rpc-nfs3 1", 0},
	{"RPC-015", "RFC 5531 Section 9", Must, Error, "AUTH_ERROR gives a reason that a server can have: neither AUTH_OK nor one that only a client can find.", "rpc-nfs3 2", 0},
	{"RPC-016", "RFC 5531 Section 9", Must, Error, "GARBAGE_ARGS answers only arguments that do not decode.", "rpc-nfs3 2", 0},
	{"RPC-017", "RFC 5531 Appendix A", Must, Error, "The verifier of a reply is not of flavor AUTH_SYS: AUTH_SYS is answered by AUTH_NONE or AUTH_SHORT.", "rpc-nfs3 2.2", 0},
	{"RPC-018", "RFC 5531 Section 9", Should, Warning, "PROG_UNAVAIL and PROC_UNAVAIL do not answer a call of what the same server has served.", "rpc-nfs3 2", shifting},
	{"RPC-019", "RFC 5531 Section 9", Must, Error, "A procedure that the version of its program does not have is answered by PROC_UNAVAIL.", "rpc-nfs3 2", 0},
}
