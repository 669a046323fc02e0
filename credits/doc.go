// Package credits counts the credits of RPC-over-RDMA (RFC 8166 Section 3.3,
// RFC 5666 Section 3.3): who may send how many messages, and how many receives
// must be posted for them.
//
// One credit is the right to have one call unanswered. The requester asks for
// credits in every call, the responder grants them in every reply, and one
// rule holds at all times:
//
//	credits outstanding ≤ receives posted
//
// since a Send that finds no receive ends the connection.
//
//	Requester  calls in flight, bounded by the lower of requested and granted
//	Responder  sends the peer may still make, bounded by receives posted
//
// Both are plain structs: no locks, no waiting, no allocation. Their owner
// calls them from one goroutine, or under its own lock, and does the waiting.
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
//	if !p.Received() { … }           // the peer broke its bound
//	post(p.Need()); p.Posted(p.Need()) // before the grant, never after
//	send(reply, p.Grant(call.Credit))
//
// Each direction of a connection has a pair of its own (RFC 8167 Section 4.2);
// [Responder.Expect] covers messages that share its receives but are not
// calls: answers to calls of ours, and RDMA_DONE (RFC 5666 Section 3.4).
//
// A server with many connections can bound the credits of all of them together: a
// [Pool] gives each a [Share], by load, which limits its Responder.
//
// A connection starts with one credit and nothing posted. A reconnect starts
// again: use new values, or Reset, which also makes calls and grants of the
// old connection harmless by a new [Requester.Epoch].
package credits
