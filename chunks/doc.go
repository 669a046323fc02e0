// Package chunks holds the chunk lists of RPC-over-RDMA version 1 (RFC 8166
// Section 3.4, RFC 8166 Section 4.1.2) and what is done with them: taking data
// items out of an RPC message, laying a message out again from inline octets
// and pulled segments, and spreading results over the memory a peer offered.
//
// Words: the *payload stream* is the RPC message; an item is *reduced* when its
// data and XDR pad were taken out of the stream and travel by RDMA; a *Position*
// is an octet offset in the unreduced stream, 0 being the first octet of the
// XID (RFC 8166 Section 3.4.5).
//
//   - [Segment], [ReadSegment], [WriteChunk], [Lists]: the wire forms, their
//     codec and their [Limits];
//   - [Message]: an RPC message and its reducible [Item]s; what stays inline;
//   - [Layout]: where in ONE contiguous buffer the inline octets go and where
//     each RDMA Read must put its segment, so that the rebuilt message needs no
//     second copy;
//   - [WriteChunk.Fill], [AppendWrites]: which octets go to which segment of a
//     write chunk or reply chunk, with exact returned lengths;
//   - [Returned]: the requester's check of what came back;
//   - [Binding]: which items of a procedure may be reduced; [NFSv3], [NFSv4] and [NFS]
//     are those of RFC 8267. A binding may have more to say: see [ResultLister],
//     [Lister], [Walker] and [Scope].
//
// Contract: octets go in, values come out. No I/O, no clock, no locks, no
// goroutines. Nothing is allocated by a number read from the wire: lists grow
// with the octets that are there and stop at Limits, sums are 64 bits wide, and
// [Layout.Build] checks every position and the total size before a caller has to
// allocate or pull anything. Values reuse their memory: decoding into, or
// building, the same Lists or Layout again allocates nothing once warm.
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
// XDR roundup (RFC 8166 Section 3.4.5.2, RFC 8166 Section 3.4.6.2): we never
// send pad in a chunk; a read chunk may bring its pad, in the last segment or as
// a segment of its own; a write chunk may offer room for it, which stays unused.
//
// Choice: read segments of one Position must be adjacent, Positions ascend. A
// segment whose last octet lies beyond offset 2^64-1 is refused. Segments of no
// octets are legal and never pulled.
//
// Read lists of replies (RFC 5666) are the same: [Layout] serves both directions.
// [Walker] finds the items that RFC 5666 may have padded, [Covers] tells whether a
// binding speaks for a program at all.
//
// Not here: RDMA itself, RPC-over-RDMA headers (package rpcrdma).
package chunks
