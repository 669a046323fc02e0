// Package engine is RDMAP (RFC 5040, RFC 7306, draft-talpey-rdma-commit) as machines without goroutine, clock or socket:
// octets in (Receiver), work requests in (Sender), octets out (Work), requests of the peer in between (Task).
//
// There are three owners. The Receiver belongs to whoever reads, the Work to whoever writes, and the Sender to whoever
// holds the lock that the Receiver was given. Take hands messages from the Sender to the Work, Wrote takes them back.
package engine
