package mpa

// Config says what one side wants from the startup. The zero value asks for
// revision 2, enhanced, with CRC and without any RDMA Read. Depths are exact
// values, not defaults: zero means none.
type Config struct {
	// Rev is the revision an Initiator sends, 1 or 2; 0 stands for 2. A Responder
	// answers in the revision of the Request.
	Rev uint8
	// Plain makes an Initiator send S=0: no read depths and no RTR are exchanged,
	// both sides use what they know. Revision 1 is always plain.
	Plain bool
	// NoCRC says that this side does not ask for CRCs. They are on all the same if
	// the peer asks.
	NoCRC bool
	// MaxRev is the highest revision that a Responder takes: 1 makes it one that knows
	// RFC 5044 alone, to which a Request of revision 2 is malformed. 0 stands for 2.
	MaxRev uint8
	// Markers says that the engine can insert markers into what it sends, as RFC 5044
	// Section 4.3 demands of everybody. Without it a peer that sets M is refused.
	Markers bool
	// WantMarkers sets M: this side asks for markers in what it receives. The peer's
	// consent is not needed, but some peers refuse (Choice: not by default).
	WantMarkers bool
	// IRD and ORD are the read depths of this side, 0..0x3ffe; an Initiator may
	// also give NotNegotiated (Choice: not by default, Linux does not know it).
	IRD, ORD uint16
	// MinORD makes a Responder refuse a Request whose IRD is lower, naming the depth
	// it needs in the Reply. 0: none.
	MinORD uint16
	// PeerToPeer makes an Initiator set A: it will send an RTR before anything else.
	PeerToPeer bool
	// RTR is the set of RTR messages this side can send (Initiator; 0 stands for
	// Write and Read) or take (Responder; 0 stands for all three).
	RTR RTR
	// RefusePlain makes a Responder refuse Requests of revision 1 and with S=0.
	RefusePlain bool
	// PrivateData is what an Initiator sends, 0..512 octets, 508 when enhanced.
	// Borrowed until AppendRequest.
	PrivateData []byte
}

// Negotiation is the outcome of a successful startup, the same for both roles
// except where a role is named.
type Negotiation struct {
	Rev      uint8
	Enhanced bool
	// CRC: both sides generate and check. When false the field is there but not
	// looked at. RFC 5044 Section 7.1: C of the Request or C of the Reply.
	CRC bool
	// SendMarkers: the peer set M, so markers go into what we send.
	SendMarkers bool
	// RecvMarkers: we set M, so markers come with what we receive.
	RecvMarkers bool
	// PeerToPeer: both sides set A.
	PeerToPeer bool
	// RTR: at the Initiator the one message to send as the first FPDU, at the
	// Responder the set of messages of which one must be the first FPDU; 0 if none.
	// An RTRSend takes MSN 1 of queue 0, so that ULP messages begin with MSN 2.
	RTR RTR
	// IRD is how many queue 1 requests of the peer this side serves, ORD how many it
	// may have outstanding. NotNegotiated if left to the ULP.
	IRD, ORD uint16
	// PeerIRD and PeerORD are the peer's raw words, NotNegotiated when none came.
	PeerIRD, PeerORD uint16
	// UnaskedPeerToPeer: the Reply set A though the Request did not. Ignored, to be
	// counted.
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

// check validates a Config; name is the frame that would be wrong.
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

// clamp returns the outbound depth of a side that wants own, towards a peer that
// serves limit; NotNegotiated on either side leaves own alone.
func clamp(own, limit uint16) uint16 {
	if own == NotNegotiated || limit == NotNegotiated {
		return own
	}
	return min(own, limit)
}
