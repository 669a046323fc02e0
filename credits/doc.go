// Package credits counts the credits of RPC-over-RDMA (RFC 8166 Section 3.3, RFC 5666 Section 3.3): how
// many messages each side may send, and how many receives must be posted for them.
//
// One credit is the right to have one unanswered call. The requester asks for credits in every call,
// and the responder grants them in every reply. One rule holds at all times:
//
//	credits outstanding ≤ receives posted
//
// because a Send that finds no receive ends the connection.
//
//	Requester  calls in flight, bounded by the lower of requested and granted
//	Responder  sends the peer may still make, bounded by receives posted
//
// Both are plain structs without locks, waiting or allocation. The owner calls them from one goroutine
// or under its own lock, and does the waiting.
//
//	q := credits.NewRequester(32)
//	if q.Take() {            // a credit for one call; else wait for a reply
//		send(call, q.Request())
//	}
//	…
//	q.Grant(reply.Credit)    // every reply and RDMA_ERROR carries a grant
//	q.Release()              // the call is answered
//
//	p := credits.NewResponder(32)
//	post(p.Need()); p.Posted(p.Need())
//	…
//	if !p.Received() { … }           // the peer exceeded its grant
//	post(p.Need()); p.Posted(p.Need()) // before the grant, never after
//	send(reply, p.Grant(call.Credit))
//
// Each direction of a connection has its own pair (RFC 8167 Section 4.2). [Responder.Expect] counts
// messages that use the same receives but are not calls: replies to our own calls, and RDMA_DONE (RFC
// 5666 Section 3.8).
//
// A server with many connections can bound the credits of all of them together. A [Pool] gives each
// connection a [Share] according to its load, which limits its Responder.
//
// A connection starts with one credit and no posted receives. After a reconnect, use new values.
package credits
