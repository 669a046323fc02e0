// Package transport carries ONC RPC calls over RPC-over-RDMA version 1 (RFC 8166, RFC 8797), on
// the user-space iWARP engine of package rdmap. The same interfaces also work over record-marked
// TCP (RFC 5531 Section 11). Calls, replies and handlers are those of package rpc.
//
// # Client
//
// [Dial] opens an RDMA connection and [DialStream] a TCP connection. Both return an [rpc.Caller]:
//
//	c, err := transport.Dial(ctx, "tcp", "server:20049", nil)
//	var reply rpc.Reply
//	err = c.Do(ctx, &rpc.Call{Prog: 100003, Vers: 3, Proc: 0}, &reply)
//	reply.Release()
//
// A redial.Caller works over either transport. When its connection is lost, it opens another one and sends
// again the calls that are marked Repeatable. Other calls without a reply fail with an [rpc.OutcomeError]: the
// server may have run them.
//
// A call names the parts that may travel by RDMA. Item is the one reducible argument (the data of an
// NFS WRITE). Sink is the memory where the eligible result (the data of an NFS READ) may be placed.
// MaxResults is the size of the largest reply. MoreItems and MoreSinks are for programs that have
// several of either. The package chooses the form: inline, with chunks, or as a long message (RFC
// 8166 Section 3.5). It registers memory for one call, and revokes it when the call completes.
//
// # Server
//
// A [Server] hands each call to its [rpc.Handler] with complete, contiguous arguments, whichever way they
// came. It pulls the data of chunks by RDMA Read straight into that buffer. Results added with
// [rpc.Response.AppendItem] leave by RDMA Write straight from the handler's memory. [Server.Serve] accepts
// RDMA connections, [Server.ServeStream] TCP connections.
//
// A handler may want to refuse calls before their data is moved, or to have the data read straight
// into its own memory. It says Lazy of those calls: see [rpc.Request.Opaque].
//
// A handler also names the calls that must not run twice: see [rpc.Handler]. A client that has lost its
// connection sends them again, on any transport, and the server recognizes them. For servers behind
// [Listen], see [Duplicates].NonIdempotent.
//
// [Listen] is for servers that already speak record-marked RPC on a [net.Conn]. Its connections look
// like TCP connections, while chunks move the data.
//
// # Backward direction
//
// A server can call its clients on the connections that they have opened (RFC 8167). Both ends set
// [Backward].Credits, the client sets a Handler, and the server's handler uses
// Request.Backward. Each direction has its own credits, XIDs and receives. A handler that calls back
// waits for the reply, so it must say Blocks of its calls. Calls nested in calls may need as many credits
// as they are deep.
//
// # Profiles
//
// By default a connection follows RFC 8166. With [Config].RFC5666, results that fit nowhere are
// exposed for the client to read (RFC 5666 Section 3.8), data that fits inline arrives aligned (RFC
// 5666 Section 3.9), and opaques of programs without an upper-layer binding may travel in chunks. What
// one end exposes is limited in number, octets and time ([RFC5666].DoneTimeout). It is freed when no
// RDMA Read can reach it anymore.
//
// # Goroutines
//
// A client connection has no goroutine of its own: the goroutine that waits for a reply reads the socket
// (see "Who reads the socket" in package rdmap). A server has one goroutine per connection. Short handlers
// run in it, and their replies leave together. Handlers of calls with Blocks get a goroutine each unless they
// have been short so far. When any other handler takes long, a watchdog lets another goroutine read.
//
// # Cancellation
//
// A call whose context ends returns at once. Its credit, its XID, Item and Sink stay in use until the
// reply comes or the connection ends, because the peer may still touch the advertised memory (RFC 8166
// Section 4.5). Call.Free tells when they are free.
//
// # Limits and non-features
//
// Every limit is a field of [Config], documented with its default. The backward direction has no
// chunks.
package transport
