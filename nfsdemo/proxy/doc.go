// Package proxy connects RPC clients and an RPC server with different transports: RPC-over-RDMA on one
// side, record-marked TCP (RFC 5531 Section 11) on the other.
//
// A [Proxy] is a [github.com/stag-rdma/stag/transport.Server] whose handler makes each call again at the server. Each client
// gets its own connection there, so that the server can distinguish clients as if they were connected directly; XIDs,
// credentials and verifiers pass unchanged. Only data that an upper-layer binding names travel in chunks, and are not copied;
// all other programs pass too.
package proxy
