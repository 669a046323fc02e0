// Package rdmap is a user-space iWARP engine: RDMAP (RFC 5040) on DDP (RFC 5041) on MPA (RFC 5044,
// RFC 6581), over any net.Conn.
//
// State machines implement the protocol (internal/engine). They do no I/O, read no clock and start no goroutines:
//
//	octets in ──> deframer ──> receiver ──> placements, events
//	work requests in ──> sender ──> octets out
//	requests of the peer ──> responder ──┘
//
// Above them, [Conn] is the one layer with sockets, locks and goroutines.
//
// A connection in six lines:
//
//	c := rdmap.Client(tcp, &rdmap.Config{Handler: h})
//	if err := c.Handshake(ctx); err != nil { … }
//	var w rdmap.Waiter
//	w.Reset()
//	err := c.Post([]verbs.WR{{Op: verbs.OpSend, Head: msg, Done: &w}})
//	err = c.Wait(ctx, &w)
//
// # Who reads the socket
//
// There is no reader goroutine. A goroutine that waits (in Wait or anything built on it) takes the
// reading role if it is free, reads the socket itself, and runs the upcalls for whatever arrives. The
// others sleep until their own work completes or the role is passed to them. When nobody waits, the
// connection is only watched: TCP on Linux by one epoll instance of the process, everything else by a
// parked reader. A server gives the role to one goroutine for good with Serve.
//
// Upcalls must therefore be short, and must not wait on the same connection. An upcall that has to
// block calls HandOff first. A watchdog takes the role from one that blocks without HandOff.
//
// # Writing
//
// There is no writer goroutine. Post appends under a lock, and one poster flushes for all. What an
// upcall posts is flushed once, after everything that was read has been handled. A flush never blocks
// the reader: when the socket is full, a goroutine started for that purpose waits for room.
//
// # Receives and events
//
// Each Send and each Immediate consumes a posted receive ([Conn.PostRecv]). If there is none, the
// connection ends.
//
// # What a completed operation means
//
//	Read         each octet of the sink was written by this Response, once and in order
//	Send, Write  the octets were handed to the socket; nothing about the peer
//	Flush        the peer says that the octets are persistent or visible, as asked, in memory that may be flushed
//	Verify       with a hash: the peer answers that this is the hash; without: the peer's hash. A stag peer
//	             hashes what the medium of the memory holds (region.ReadBacker), or refuses
//	atomics      the peer says that it was executed, after everything before it
//	Recv         each octet of the message came once and in order
//
// Any other course ends the connection with an error: a *ProtocolError if the peer broke a rule, a
// *TerminateError with the content of its Terminate if it refused.
//
// # Limits and non-features
//
// There is one RDMAP stream per connection. Nothing is retried: every protocol error is fatal to the
// connection (RFC 5040 Section 7). Config bounds the memory held for a peer. An idle connection holds
// a few KiB.
//
// The engine sends markers when the peer asks for them. Unless Config says so, it neither asks for
// markers nor initiates without CRC or with MPA revision 1.
package rdmap
