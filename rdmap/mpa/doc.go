// Package mpa frames DDP segments on a byte stream: Marker PDU Aligned framing
// for TCP, RFC 5044, with the enhanced connection setup of RFC 6581.
//
// It performs no I/O, reads no clock and starts no goroutine. Octets and events
// go in, octets and results come out:
//
//	            octets read                   octets to write
//	                 |                               ^
//	startup   Initiator.Input                Initiator.AppendRequest
//	          Responder.Input                Responder.Accept / Reject
//	                 |                               |
//	full      Deframer.Next  -> ULPDU        ULPDU -> AppendFPDU
//	operation                                         or an Inserter: markers
//
// A connection has two phases. During startup exactly one Request and one Reply
// are exchanged (RFC 5044 Section 7.1); the two machines negotiate CRC, read depths
// and the ready-to-receive message of peer-to-peer connections (RFC 6581 Section 9).
// After that, each direction is a sequence of FPDUs:
//
//	| ULPDU_Length 2 | ULPDU | PAD 0-3 | CRC32C 4 |
//
// Receiving:
//
//	d := mpa.Deframer{CRC: true}
//	for {
//		ulpdu, n, err := d.Next(staged)
//		if err != nil { ... }   // *mpa.Error, fatal for this direction
//		if n == 0 { break }     // append more octets to staged
//		use(ulpdu)              // a view of staged
//		staged = staged[n:]
//	}
//
// Each direction has markers if its receiver asked for them: the sender then uses an
// Inserter, the receiver calls Deframer.ExpectMarkers, and nothing else changes.
// Negotiation tells a side which of the two it has to do.
//
// "Need more input" is not an error: n is 0 and the call costs O(1), so a caller may
// ask after every read, whatever the size of the pieces.
//
// Errors. *FormatError is a malformed startup frame: close the connection, send
// nothing. *RejectError is the peer's refusal, *RefuseError is ours. *Error is a
// protocol error with a Terminate code of layer 2 (RFC 5044 Section 8).
//
// The caller bounds how long it waits for a startup frame (RFC 5044 Section 7.1.2
// recommends a timeout).
//
// Not here: revision 0 of the RDMA Consortium, which is refused, and the "streaming"
// phase before the Request.
package mpa
