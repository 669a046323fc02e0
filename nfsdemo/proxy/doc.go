// Package proxy connects RPC clients and an RPC server with different transports: RPC-over-RDMA on one
// side, record-marked TCP (RFC 5531 Section 11) on the other.
//
// Each client gets its own connection to the server, so that the server can distinguish clients as if
// they were connected directly; XIDs, credentials and verifiers pass unchanged
// ([github.com/stag-rdma/stag/transport.Relay]). Only data that an upper-layer binding names travel in
// chunks; all other programs pass too.
package proxy
