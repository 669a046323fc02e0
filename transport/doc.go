// Package transport carries ONC RPC calls over RPC-over-RDMA version 1
// (RFC 8166, RFC 8797) on the user-space iWARP engine of package rdmap, and over
// record-marked TCP (RFC 5531 Section 11) behind the same interfaces.
//
// # Client
//
// [Dial] opens an RDMA connection and [DialStream] a TCP one; both are a [Caller]:
//
//	c, err := transport.Dial(ctx, "tcp", "server:20049", nil)
//	var reply transport.Reply
//	err = c.Do(ctx, &transport.Call{Prog: 100003, Vers: 3, Proc: 0}, &reply)
//	reply.Release()
//
// A [Redialer] is a Caller over either that makes another connection when one is lost, and
// sends the calls without a reply again.
//
// A call names the parts that may travel by RDMA: Item is the one reducible
// argument (the data of an NFS WRITE), Sink the memory where the eligible result
// (the data of an NFS READ) may be placed, MaxResults the size of the largest
// reply; MoreItems and MoreSinks are for programs that have several of either. The package
// chooses the form: inline, with chunks, or as a long message
// (RFC 8166 Section 3.5). Memory is registered for one call and revoked when it
// completes.
//
// # Server
//
// A [Server] hands each call to its [Handler] with complete, contiguous arguments,
// whatever way they came; chunk data are pulled by RDMA Read straight into that
// buffer. Results marked with [Response.AppendItem] leave by RDMA Write straight
// from the handler's memory. [Server.Serve] accepts RDMA, [Server.ServeStream] TCP.
//
// A handler that wants to refuse calls before their data are moved, or to have them read
// straight into memory of its own, names those calls with Lazy: see [Request.Opaque].
//
// A handler names the calls that must not run twice, see [Handler]; the server knows
// them again when a client that has lost its connection sends them again, on whatever
// transport. The servers behind [Listen] have to do that for themselves.
//
// [Listen] is for servers that already speak record-marked RPC on a [net.Conn]:
// its connections look like TCP ones, while chunks move the data.
//
// # Backward direction
//
// A server calls its clients on the connections that they have made (RFC 8167): both ends
// set [Config.BackwardCredits], the client a BackwardHandler, and the server's handler
// finds [Request.Backward]. Both directions have credits, XIDs and receives of their own.
// Handlers that call back wait: they are to be among those that MayBlock names. Calls
// inside calls inside calls may need as many credits as they are deep.
//
// # Profiles
//
// By default a connection keeps to RFC 8166. With [ProfileRFC5666] results that fit
// nowhere are exposed for the client to read (RFC 5666 Section 3.8), data that fit inline
// arrive aligned (RFC 5666 Section 3.9), and opaques of programs that no binding speaks
// for may travel by chunks. What an end exposes is bounded in number, octets and time
// ([Config.DoneTimeout]), and freed when no RDMA Read can reach it any more.
//
// # Goroutines
//
// A client needs none of its own: the goroutine that waits for a reply reads the
// socket (package rdmap, "Who reads the socket"). A server has one per connection;
// short handlers run in it and their replies leave in one flush per burst.
// Handlers that say MayBlock get a goroutine; those that overstay without saying
// so are found by a watchdog that passes the reading role on.
//
// # Cancellation
//
// A call whose context ends returns at once. Its credit, its XID, Item and Sink stay
// in use until the reply comes or the connection ends, as the peer may still touch
// what was advertised (RFC 8166 Section 4.5); Call.Free tells when.
//
// # Limits and non-features
//
// Every limit is a field of [Config] with its default. The backward direction has no
// chunks.
package transport
