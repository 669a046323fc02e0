package verbs

import "github.com/stag-rdma/stag/rdmap/region"

// Message is a delivered Send or Immediate Data message.
type Message struct {
	// Op is one of the four Sends, or one of the two Immediates, whose Data is 8 octets.
	Op Opcode
	// Data is the payload. In HandleRecv it is lent until HandleRecv returns;
	// from Recv it belongs to the caller.
	Data []byte
	// Invalidated is the STag that the Send invalidated, 0 if none. The invalidation
	// has taken effect (RFC 5040 Section 5.3).
	Invalidated region.STag
	// Solicited reports that the peer asked for an event.
	Solicited bool
	// Order grows from one HandleRecv of a connection to the next. It tells which message came
	// first if several are handled concurrently, after a HandOff or beyond Reading.HandlerLimit.
	// In a message from Recv it is 0.
	Order uint64
}
