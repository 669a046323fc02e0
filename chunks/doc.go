// Package chunks has the chunk lists of RPC-over-RDMA version 1 (RFC 8166 Section 3.4, RFC 8166 Section
// 4.1.2) and the operations on them: it takes data items out of an RPC message, rebuilds a message from
// inline octets and pulled segments, and distributes results over the memory that a peer offered.
//
// Terms: the *payload stream* is the RPC message. An item is *reduced* when its data and XDR pad are
// taken out of the stream and travel by RDMA. A *Position* is an octet offset in the unreduced stream,
// and 0 is the first octet of the XID (RFC 8166 Section 3.4.5).
//
//   - [Segment], [ReadSegment], [WriteChunk], [Lists]: the wire forms, their
//     codec and their [Limits];
//   - [Message]: an RPC message, each [Item] of it that may be reduced, and what stays inline;
//   - [Layout]: where in ONE contiguous buffer the inline octets go and where
//     each RDMA Read must put its segment, so that the rebuilt message needs no
//     second copy;
//   - [WriteChunk.Fill], [AppendWrites]: which octets go to which segment of a
//     write chunk or reply chunk, with exact returned lengths;
//   - [Returned]: the requester's check of what came back;
//   - [Binding]: which items of a procedure may be reduced; [NFSv3] and [NFS]
//     are those of RFC 8267. A binding may implement more: see [Lister], [Walker]
//     and [Scope].
//
// Contract: octets go in, values come out. There is no I/O, no clock, no lock and no goroutine. No
// number read from the wire determines an allocation: lists grow with the octets that are there and
// stop at Limits, sums are 64 bits wide, and [Layout.Build] checks every position and the total size
// before a caller has to allocate or pull anything. Values reuse their memory: after warm-up, decoding
// into the same Lists, or building the same Layout again, allocates nothing.
//
//	var l chunks.Layout
//	if err := l.Build(lists.Read, len(payload), nil); err != nil {
//		return err // answer ERR_CHUNK
//	}
//	buf := make([]byte, l.Total)
//	l.Place(buf, payload)
//	for _, p := range l.Pulls {
//		read(buf[p.Dst:p.Dst+int(p.Length)], p.Handle, p.Offset)
//	}
//
// XDR roundup (RFC 8166 Section 3.4.5.2, RFC 8166 Section 3.4.6.2): we never send pad in a chunk. A
// read chunk may bring its pad, in the last segment or as a segment of its own. A write chunk may offer
// room for the pad, which stays unused.
//
// Choice: read segments of one Position must be adjacent, and Positions ascend. A segment whose last
// octet lies beyond offset 2^64-1 is refused. Empty segments are legal, and are never pulled.
//
// Read lists of replies (RFC 5666) have the same form, so [Layout] serves both directions. [Walker]
// finds the items that RFC 5666 may have padded. [Covers] reports whether a binding knows a program at
// all.
//
// Not here: RDMA itself, and RPC-over-RDMA headers (package rpcrdma).
package chunks
