// Package rdmap is a user-space iWARP engine: RDMAP (RFC 5040) on DDP (RFC
// 5041) on MPA (RFC 5044, RFC 6581) over any net.Conn.
//
// The protocol is held by machines that do no I/O, know no time and start no
// goroutine:
//
//	octets in ──> deframer ──> receiver ──> placements, events
//	work requests in ──> sender ──> octets out
//	requests of the peer ──> responder ──┘
//
// [Conn] is the one layer of sockets, locks and goroutines above them.
//
// A connection in six lines:
//
//	c := rdmap.Client(tcp, &rdmap.Config{Handler: h})
//	if err := c.Handshake(ctx); err != nil { … }
//	var w rdmap.Waiter
//	w.Reset()
//	err := c.Post([]rdmap.WR{{Op: rdmap.OpSend, Head: msg, Done: &w}})
//	err = c.Wait(ctx, &w)
//
// # Who reads the socket
//
// There is no reader goroutine. A goroutine that waits (Wait and everything
// built on it) takes the reading role when it is free, reads the socket itself
// and runs the upcalls of whatever arrives; the others sleep until their own
// completion comes or the role is passed to them. When nobody waits, a
// connection is watched: TCP on Linux by one epoll of the process, everything
// else by a parked reader. A server gives the role to one goroutine for good
// with Serve. Upcalls must therefore be short and must not wait on the same
// connection; one that has to block calls HandOff first, and one that blocks
// without saying so is relieved of the role by a watchdog.
//
// # Writing
//
// There is no writer goroutine. Post appends under a lock and one poster
// flushes for all. What is posted inside an upcall is flushed once, when
// everything that was read has been handled. A flush never blocks the reader:
// when the socket is full, a goroutine made for the purpose waits for room.
//
// # Receives and events
//
// Each Send and Immediate takes a posted receive ([Conn.PostRecv]); one for which there
// is none ends the connection. Connections may share them ([RecvQueue]). A consumer
// without a Handler may sleep until a message asks for an event ([Conn.WaitSolicited]).
//
// # Limits and non-features
//
// One RDMAP stream per connection. Nothing is retried: every protocol error is
// fatal to the connection (RFC 5040 Section 7). Memory held for a peer is
// bounded by Config; an idle connection holds a few KiB.
//
// The engine sends markers when the peer asks for them. It never asks for markers
// itself, and never initiates without CRC or with revision 1, unless Config says so.
package rdmap
