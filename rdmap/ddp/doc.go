// Package ddp is Direct Data Placement (RFC 5041): the segment headers, and the data sink's state
// machine, which checks every segment before it places an octet.
//
// It performs no I/O, reads no clock and starts no goroutine. A DDP segment is the ULPDU of one
// FPDU (package mpa). RDMAP (package rdmap) interprets the payload.
//
// To send, cut a message into segments of at most MaxPayload octets, with L set in the last one:
//
//	hdr = seg.Append(hdr[:0])
//	frame(hdr, data[off:end])
//
// To receive, for each ULPDU in order:
//
//	seg, err := r.Header(ulpdu, len(ulpdu))     // checks version and queue
//	...                                         // RDMAP checks its version and the opcode
//	ev, err := r.Place(ulpdu[seg.HeaderLen():]) // checks the rest and copies; see ev.Delivered
//
// Placing and delivering differ (RFC 5041 Section 5.3). A segment is placed when its octets are in
// the buffer. A message is delivered when its last segment and all earlier messages are placed.
// Here segments arrive in order and one goroutine processes them, so the call that places the last
// segment of a message also delivers it.
//
// The machine reaches memory through two small interfaces: Queue provides the buffers of an
// untagged queue, and Sinks the memory that an STag names. An untagged message that fits into one
// segment is not copied unless the Queue asks for that.
//
// Errors: *Error carries the Violation, and the layer, error type and error code of the Terminate
// message (RFC 5041 Section 7.2). The first error is final. ErrStalled is not a fault of the peer:
// the Queue has no memory at the moment, so present the segment again later.
//
// Choice: the checks of RFC 5041 Section 7.1 come in one fixed order: QN, MSN, MO and length, or
// existence of the STag, association, right, wrap and bounds. Since the stream below delivers in
// order, exactly one value of MSN and MO is legal. One tagged and one untagged message may be open
// at a time, so that a sender may put whole Sends between the segments of a Read Response. More than
// that is an error.
//
// Not here: SCTP (RFC 5043), DDP version 0, out-of-order placement.
package ddp
