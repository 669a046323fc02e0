// Package proxy joins RPC clients and an RPC server that speak different transports:
// RPC-over-RDMA on one side, record-marked TCP (RFC 5531 Section 11) on the other.
//
// Each client gets a connection to the server of its own, so that the server tells
// clients apart as if they had come themselves; XIDs, credentials and verifiers pass
// unchanged ([github.com/stag-rdma/stag/transport.Relay]). Only what an upper-layer
// binding knows travels in chunks; any other program passes too.
package proxy
