package mpa

// Config says what one side wants from the startup. The zero value asks for revision 2, enhanced,
// with CRC and without RDMA Reads. A depth of 0 means none, not a default.
type Config struct {
	// Rev is the revision that an Initiator sends, 1 or 2; 0 means 2. A Responder
	// answers in the revision of the Request.
	Rev uint8
	// Plain makes an Initiator send S=0: no read depths and no RTR are exchanged, and
	// each side uses what it knows. Revision 1 is always plain.
	Plain bool
	// NoCRC means that this side does not ask for CRCs. They are used all the same if
	// the peer asks.
	NoCRC bool
	// MaxRev is the highest revision that a Responder accepts: with 1 it knows RFC 5044
	// alone, and a Request of revision 2 is malformed. 0 means 2.
	MaxRev uint8
	// Markers means that the engine can insert markers into what it sends, as RFC 5044
	// Section 4.3 requires. Without it a peer that sets M is refused.
	Markers bool
	// WantMarkers sets M: this side asks for markers in what it receives. The peer's
	// consent is not needed, but some peers refuse (Choice: not by default).
	WantMarkers bool
	// IRD and ORD are the read depths of this side, 0..0x3ffe. An Initiator may also
	// use NotNegotiated (Choice: not by default, because Linux does not know it).
	IRD, ORD uint16
	// MinORD makes a Responder refuse a Request whose IRD is lower; its Reply names the
	// depth it needs. 0: no such limit.
	MinORD uint16
	// PeerToPeer makes an Initiator set A: it will send an RTR message before anything else.
	PeerToPeer bool
	// RTR is the set of RTR messages that this side can send (Initiator; 0 means Write
	// and Read) or accepts (Responder; 0 means all three).
	RTR RTR
	// RefusePlain makes a Responder refuse Requests of revision 1 and those with S=0.
	RefusePlain bool
	// PrivateData is what an Initiator sends: 0..512 octets, or 0..508 if enhanced. It
	// is borrowed until AppendRequest returns.
	PrivateData []byte
}

// Negotiation is the outcome of a successful startup. It has the same meaning in both roles, except
// where a role is named.
type Negotiation struct {
	Rev      uint8
	Enhanced bool
	// CRC: both sides generate and check the CRC, because C was set in the Request or in
	// the Reply (RFC 5044 Section 7.1). If false, the field is present but ignored.
	CRC bool
	// SendMarkers: the peer set M, so we insert markers into what we send.
	SendMarkers bool
	// RecvMarkers: we set M, so what we receive has markers.
	RecvMarkers bool
	// PeerToPeer: both sides set A.
	PeerToPeer bool
	// RTR: at the Initiator, the one message to send as the first FPDU; at the
	// Responder, the set of messages of which one must be the first FPDU; 0 if none.
	// An RTRSend takes MSN 1 of queue 0, so the ULP's messages begin with MSN 2.
	RTR RTR
	// IRD is how many queue 1 requests of the peer this side serves, ORD how many of its
	// own it may have outstanding. NotNegotiated if left to the ULP.
	IRD, ORD uint16
	// PeerIRD and PeerORD are the values that the peer sent; NotNegotiated if it sent none.
	PeerIRD, PeerORD uint16
	// UnaskedPeerToPeer: the Reply set A although the Request did not. It has no other
	// effect; a caller may count it.
	UnaskedPeerToPeer bool
	// PrivateData is a copy of the peer's ULP private data.
	PrivateData []byte
}

func (c *Config) rev() uint8 {
	if c.Rev == 0 {
		return 2
	}
	return c.Rev
}

// check validates a Config; name is the frame that it would make malformed.
func (c *Config) check(name string, maxDepth uint16) error {
	if v := c.rev(); v != 1 && v != 2 {
		return &FormatError{name, "Rev", offRev, ErrRevision}
	}
	if c.MaxRev > 2 {
		return &FormatError{name, "Rev", offRev, ErrRevision}
	}
	if c.IRD > maxDepth || c.ORD > maxDepth || c.MinORD >= NotNegotiated {
		return &FormatError{name, "IRD or ORD", StartupHeaderLen, ErrDepth}
	}
	return nil
}

// clamp returns the outbound depth of a side that wants own if its peer serves limit. If either is
// NotNegotiated, the result is own.
func clamp(own, limit uint16) uint16 {
	if own == NotNegotiated || limit == NotNegotiated {
		return own
	}
	return min(own, limit)
}

// unagreed returns the outbound depth of a side that wants own if its peer has not said what it serves: without the
// enhanced word of RFC 6581 nothing does, and a request beyond what the peer serves ends the connection.
//
// Choice: one request at a time, which every peer serves that serves any. NotNegotiated leaves it to the ULP.
func unagreed(own uint16) uint16 { return clamp(own, 1) }
