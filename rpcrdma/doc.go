// Package rpcrdma is RPC-over-RDMA version 1 (RFC 8166) as two pure state machines: a [Requester] for
// the side that sends calls, and a [Responder] for the side that answers them. It also has the
// [Header] codec for all five message types, and the connection-time [PrivateData] of RFC 8797.
//
// Contract: octets and sizes go in; verdicts, plans and octets come out. There is no I/O, no clock, no
// lock and no goroutine. The owner serialises the method calls, moves the memory, and posts the Sends.
// After warm-up, a call and its reply allocate nothing.
//
// # Requester
//
//	Plan(c)         sizes → which memory to register: c.Plan
//	                the owner registers it and says where: c.Memory
//	Begin(c)        takes a credit, enters the XID
//	AppendCall(b,c) the Send: header and inline octets, never above SendSize
//	Receive(send)   → the call that is answered, or nil: drop
//	                c.Result: error, inline reply, or octets in the reply memory
//	CheckReply(c,r) only for a long reply, once the owner has its octets
//
// Plan and Begin may come in either order. From Begin until the reply, the credit, the XID and the
// memory of a call stay taken, even when the caller has given up ([Requester.Cancel], RFC 8166 Section
// 4.5), because the peer may still write to that memory. [Requester.Abort] undoes Begin when nothing
// was sent. [Requester.Drain] empties the table when the connection is gone. Every Send received uses
// up a receive, including those that are dropped.
//
// # Responder
//
//	Receive(send,in) → Drop      nothing is sent
//	                   Answer    send AppendAnswer(b, in), nothing is executed
//	                   Dispatch  in.RPC and in.Args are the call
//	                   Pull      make a buffer of in.Layout.Total octets, Place
//	                             in.Payload in it, RDMA Read in.Layout.Pulls
//	Pulled(in,buf)   → Answer or Dispatch, after the last Read has completed
//	Defer(in)        → instead of Pulled: the reduced call; its data is pulled
//	                   later, or never
//	Reply(b,in,m,out)  the Send; before it the owner posts out.Writes, in order
//
// After Receive and before Reply or AppendAnswer, the owner posts the receives that Credits().Need()
// asks for, because the reply announces them (RFC 8166 Section 3.3.1). Receive checks version, form,
// limits, positions, overlap, total length and eligibility before anything is allocated or pulled.
// Pulled checks what only the octets of a long call can show. The owner calls Reply or AppendAnswer
// once for each call that was not dropped. Nothing is written to the peer unless the whole reply fits.
//
// # Forms
//
// A message goes inline (RDMA_MSG) when it fits the threshold of its direction, header included. A
// large eligible item moves to a read chunk or write chunk. A message that is still too large becomes a
// Position Zero chunk or goes to the reply chunk (RDMA_NOMSG, RFC 8166 Section 3.5). For RPCSEC_GSS
// with integrity or privacy the owner names no items and no sink, so that nothing is reduced.
//
// # Profile
//
// With [Profile] RFC8166 the machines refuse RDMA_MSGP, RDMA_DONE and read lists in replies, as RFC
// 8166 Section 4.6 demands, and never send them. With RFC5666:
//
//	RDMA_MSGP   an item that stays inline leaves aligned, once Config.Align has the
//	            alignment of the peer's receive buffers; both sides accept it
//	read lists  a reply that fits nowhere is left in Reply.Expose:
//	            Expose(out)            may it leave now? if not, withhold it
//	            AppendExposed(b, …)    its Send; after Done free its memory
//	            the requester gets it as Result.Read:
//	            Pulled(c,buf)          once it was read
//	            AppendDone(b)          each RDMA_DONE that is due
//	any opaque  of a program without a binding may be reduced
//
// [ConfigArgs] and [ConfigReply] are the Connection Configuration Protocol, and Configure applies its
// results.
//
// # Two directions
//
// With the backward direction (RFC 8167) each end has both a Requester and a Responder, with separate
// XIDs and credits. [ForRequester] says which of the two a Send is for. The machines of the backward
// direction set Config.NoChunks, and those of both directions set Bidirectional. An end without the
// backward direction needs nothing: a Requester drops calls, and a Responder drops replies.
// [BackwardData] tells the peer that this end takes backward calls.
package rpcrdma
