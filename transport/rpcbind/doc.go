// Package rpcbind finds and announces ONC RPC services, versions 3 and 4 of the
// protocol (RFC 1833 Section 2): which universal address does program P, version V have
// on transport N? RPC-over-RDMA services have the netids "rdma" (IPv4) and "rdma6"
// (IPv6), RFC 5666 Section 12.
//
// LookupAt asks any rpcbind. Register and Unregister change the rpcbind of this
// machine, through its local socket. RFC 5666 Section 10 names another possibility: the
// service itself answers rpcbind calls on its RDMA port. [Table] is a handler that does so.
package rpcbind
