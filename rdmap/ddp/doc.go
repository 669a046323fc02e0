// Package ddp is Direct Data Placement, RFC 5041: the segment headers, the cutting
// of messages into segments, and the data sink's machine that checks every segment
// before an octet of it is placed.
//
// It performs no I/O, knows no time and starts no goroutine. A DDP segment is the
// ULPDU of one FPDU (package mpa); what is in its payload is for RDMAP to know.
//
// Sending:
//
//	g := ddp.Segmenter{Template: seg, Length: n, MaxPayload: ddp.MaxPayload(seg.Tagged, mulpdu)}
//	for s, off, n, ok := g.Next(); ok; s, off, n, ok = g.Next() {
//		hdr = s.Append(hdr[:0])
//		frame(hdr, data[off:off+n])
//	}
//
// Receiving, for each ULPDU in order:
//
//	seg, err := r.Header(ulpdu, len(ulpdu)) // version, queue
//	...                                   // RDMAP: its version, opcode against T and QN
//	ev, err := r.Place(ulpdu[seg.HeaderLen():]) // the rest; copies; ev.Delivered
//
// Placed and delivered are two things (RFC 5041 Section 5.3): a segment is placed
// when its octets are in the buffer; a message is delivered when its last segment
// and all earlier messages are placed. On a stream that arrives in order and is
// processed by one goroutine a message is delivered by the very call that places its
// last segment.
//
// The machine reaches memory through two small interfaces: Queue for the buffers of
// an untagged queue, Sinks for what an STag names. A message whose whole payload lies
// in one segment is not copied unless the Queue wants it.
//
// Errors. *Error carries the Violation and its layer, error type and code of the
// Terminate (RFC 5041 Section 7.2). The first one is final. ErrStalled is no error
// of the peer: the Queue has no memory now, show the segment again later.
//
// Choice: the order of checks follows the sources of RFC 5041 Section 7.1 narrowed by
// the in-order stream below: MSN and MO have exactly one legal value. One tagged and
// one untagged message may be open at a time, so a sender may pass whole Sends
// between the segments of a Read Response; more is an error.
//
// Not here: SCTP (RFC 5043), DDP version 0, out-of-order placement.
package ddp
