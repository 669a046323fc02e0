// Package verbs has the words of RDMAP (RFC 5040, RFC 7306, draft-talpey-rdma-commit): work requests, messages,
// opcodes, Terminates, and the errors of a connection. Package rdmap carries them out.
package verbs
