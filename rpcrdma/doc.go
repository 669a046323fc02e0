// Package rpcrdma is RPC-over-RDMA version 1 (RFC 8166) as two pure machines: a
// [Requester] for the side that sends calls, a [Responder] for the side that
// answers them. It also has the [Header] codec for all five message types and
// the connection-time [PrivateData] of RFC 8797.
//
// Contract: octets and sizes go in, verdicts, plans and octets come out. No
// I/O, no clock, no locks, no goroutines; the owner serialises calls, moves the
// memory, and posts the Sends. A call and its reply cost no allocation once warm.
//
// # Requester
//
//	Plan(c)         sizes → which memory to register: c.Plan
//	                the owner registers it and says where: c.Memory
//	Begin(c)        takes a credit, enters the XID
//	AppendCall(b,c) the Send: header and inline octets, never above SendSize
//	Receive(send)   → the call that is answered, or nil: drop
//	                c.Result: error, inline reply, or octets in the reply memory
//	CheckReply(c,r) only for a long reply, once the owner has its octets at hand
//
// Plan and Begin may come in either order. Between Begin and the reply the
// credit, the XID and the memory of a call stay taken, also when the caller has
// lost interest ([Requester.Cancel], RFC 8166 Section 4.5): the peer may still
// write there. [Requester.Abort] undoes Begin when nothing was sent;
// [Requester.Drain] empties the table when the connection is gone. Every Send
// received uses up a receive, dropped ones too.
//
// # Responder
//
//	Receive(send,in) → Drop      nothing is sent
//	                   Answer    send AppendAnswer(b, in), nothing is executed
//	                   Dispatch  in.RPC and in.Args are the call
//	                   Pull      make a buffer of in.Layout.Total octets, Place
//	                             in.Payload in it, RDMA Read in.Layout.Pulls
//	Pulled(in,buf)   → Answer or Dispatch, after the last Read has completed
//	Defer(in)        → instead of Pulled: the reduced call; its data are pulled
//	                   later, or never
//	Reply(b,in,m,out)  the Send; before it the owner posts out.Writes, in order
//
// After Receive, and before Reply or AppendAnswer, the owner posts the receives
// that Credits().Need() asks for, since the reply announces them (RFC 8166
// Section 3.3.1). Receive checks version, form, limits, positions, overlap,
// total length and eligibility before anything is allocated or pulled; what only the
// octets of a long call can tell is checked by Pulled. Reply and
// AppendAnswer are called once per call that was not dropped; nothing is written
// to the peer unless the whole reply fits.
//
// # Forms
//
// A message goes inline (RDMA_MSG) when it fits the threshold of its direction,
// header included; a large eligible item leaves by a read chunk or write chunk;
// what is still too large becomes a Position Zero chunk or goes to the reply
// chunk (RDMA_NOMSG, RFC 8166 Section 3.5). With RPCSEC_GSS integrity or privacy
// the owner names no items and no sink, so that nothing is reduced.
//
// # Profile
//
// With [Profile] RFC8166 the machines refuse RDMA_MSGP, RDMA_DONE and reply read
// lists as RFC 8166 Section 4.6 demands, and never send one. With RFC5666:
//
//	RDMA_MSGP   an item that stays inline leaves aligned, once Config.Align tells
//	            what the peer's receive buffers are aligned to; both sides accept
//	read lists  a reply that fits nowhere is left in Reply.Expose:
//	            Expose(out)            may it leave now? else withhold it
//	            AppendExposed(b, …)    its Send; after Done free its memory
//	            the requester gets it as Result.Read:
//	            Pulled(c,buf)          once it was read
//	            AppendDone(b)          each RDMA_DONE that is due
//	any opaque  of a program that no binding speaks for may be reduced
//
// [ConfigArgs] and [ConfigReply] are the Connection Configuration Protocol, and
// Configure brings its results into force.
//
// # Two directions
//
// With the backward direction (RFC 8167) each end has a Requester and a Responder, with
// XIDs and credits of their own. [ForRequester] says which of them a Send is for. The
// pair of the backward direction has Config.NoChunks, both pairs have Bidirectional.
// An end without it needs nothing: a call at a Requester and a reply at a Responder are
// dropped. [BackwardData] tells the peer that backward calls are taken.
package rpcrdma
