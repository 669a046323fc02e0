package mpa

import "slices"

// Initiator is the startup machine of the side that sends the Request (RFC 5044 Section 7.1.2, RFC
// 6581 Section 9). It is used by one goroutine at a time.
//
//	idle --AppendRequest--> wait --Input: Reply--> done | failed
type Initiator struct {
	cfg    Config
	state  startupState
	result Negotiation
	err    error
}

// startupState is shared by both roles.
type startupState uint8

const (
	// stateIdle: an Initiator that has sent nothing.
	stateIdle startupState = iota
	// stateWait: we accept exactly one frame from the peer and send nothing.
	stateWait
	// stateDecide: a Responder that has the Request and waits for the ULP's decision.
	stateDecide
	// stateDone: startup has succeeded, FPDUs follow.
	stateDone
	// stateFailed: nothing more is accepted; the error tells what may still be sent.
	stateFailed
)

// NewInitiator returns an Initiator. The error is a *FormatError that names the field of cfg that
// cannot be sent. cfg is copied; its PrivateData is borrowed until AppendRequest returns.
func NewInitiator(cfg *Config) (*Initiator, error) {
	i := &Initiator{cfg: *cfg}
	if err := i.cfg.check("request", NotNegotiated); err != nil {
		return nil, err
	}
	if i.cfg.RTR == 0 {
		i.cfg.RTR = RTRWrite | RTRRead
	}
	if r := i.request(); len(r.PrivateData) > r.maxPrivate() {
		return nil, &FormatError{"request", "PD_Length", offLen, ErrPrivateData}
	}
	return i, nil
}

func (i *Initiator) request() Request {
	c := &i.cfg
	r := Request{Frame{Rev: c.rev(), CRC: !c.NoCRC, Markers: c.WantMarkers, PrivateData: c.PrivateData}}
	if r.Rev < 2 || c.Plain {
		return r
	}
	r.Enhanced = true
	r.Word = Enhanced{IRD: c.IRD, ORD: c.ORD}
	if c.PeerToPeer {
		// RFC 6581 Section 9.2: the initiator sets every option it can send.
		r.Word.PeerToPeer, r.Word.RTR = true, c.RTR
	}
	return r
}

// AppendRequest appends the Request to b. The initiator then waits for the Reply and sends nothing
// else (RFC 5044 Section 7.1.2).
func (i *Initiator) AppendRequest(b []byte) []byte {
	r := i.request()
	b, _ = r.Append(b) // cannot fail: NewInitiator checked the length
	if i.state == stateIdle {
		i.state = stateWait
	}
	return b
}

// Input looks at b, everything received so far, which is borrowed. n == 0 with a nil error means
// that more is needed. Once the Reply is complete, n is its length, and Result is valid if err is
// nil. Errors, all final but ErrState:
//
//   - *FormatError: close the connection, send nothing;
//   - *RejectError: the responder refused; close;
//   - *Error with CodeIRD or CodeRTR: send a Terminate, close.
//
// ErrState means that no Reply is expected. Octets after the Reply are an error, since a responder
// MUST receive an FPDU before it sends one (RFC 5044 Section 7.1.2); so pass everything that was
// read.
func (i *Initiator) Input(b []byte) (n int, err error) {
	switch i.state {
	case stateFailed:
		return 0, i.err
	case stateWait:
	default:
		return 0, ErrState
	}
	n, err = i.input(b)
	if err != nil {
		i.state, i.err = stateFailed, err
	} else if n > 0 {
		i.state = stateDone
	}
	return n, err
}

func (i *Initiator) input(b []byte) (int, error) {
	reply, n, err := ParseReply(b)
	if err != nil || n == 0 {
		return n, err
	}
	reply.PrivateData = slices.Clone(reply.PrivateData)
	if reply.Rejected {
		return n, &RejectError{reply}
	}
	if err := i.checkReply(&reply); err != nil {
		return n, err
	}
	if len(b) > n {
		return n, &FormatError{"reply", "end", n, ErrTrailing}
	}
	return n, i.settle(&reply)
}

// checkReply compares an accepting Reply with our Request.
func (i *Initiator) checkReply(r *Reply) error {
	// Choice: an accepting Reply with a lower revision and the same S is accepted.
	if r.Rev > i.cfg.rev() {
		return &FormatError{"reply", "Rev", offRev, ErrRevision}
	}
	if req := i.request(); r.Enhanced != req.Enhanced {
		// RFC 6581 Section 10: S=1 MUST be answered by S=1, S=0 by S=0.
		return &FormatError{"reply", "S", offFlags, ErrEnhanced}
	}
	if r.Markers && !i.cfg.Markers {
		return &FormatError{"reply", "M", offFlags, ErrMarkers}
	}
	return nil
}

func (i *Initiator) settle(r *Reply) error {
	c := &i.cfg
	i.result = Negotiation{
		Rev: r.Rev, Enhanced: r.Enhanced,
		CRC: !c.NoCRC || r.CRC, SendMarkers: r.Markers, RecvMarkers: c.WantMarkers,
		IRD: c.IRD, ORD: c.ORD,
		PeerIRD: NotNegotiated, PeerORD: NotNegotiated,
		PrivateData: r.PrivateData,
	}
	if !r.Enhanced {
		i.result.ORD = unagreed(c.ORD)
		return nil
	}
	return i.settleEnhanced(&r.Word)
}

// settleEnhanced applies RFC 6581 Section 9. Choice: IRD stays as we offered it even if the
// responder announces a lower ORD; the slots exist anyway.
func (i *Initiator) settleEnhanced(w *Enhanced) error {
	res := &i.result
	res.PeerIRD, res.PeerORD = w.IRD, w.ORD
	if w.ORD != NotNegotiated && i.cfg.IRD != NotNegotiated && w.ORD > i.cfg.IRD {
		return &Error{Code: CodeIRD, Got: uint32(w.ORD), Want: uint32(i.cfg.IRD)}
	}
	res.ORD = clamp(i.cfg.ORD, w.IRD)
	if !i.cfg.PeerToPeer {
		res.UnaskedPeerToPeer = w.PeerToPeer
		return nil
	}
	options := w.RTR & i.cfg.RTR
	if w.IRD == 0 {
		options &^= RTRRead // a Read Request needs a slot at the responder
	}
	// Choice: a Reply with A=0 to a Request with A=1 offers no option.
	if !w.PeerToPeer {
		options = 0
	}
	if options == 0 {
		return &Error{Code: CodeRTR, Got: uint32(w.RTR), Want: uint32(i.cfg.RTR)}
	}
	res.PeerToPeer, res.RTR = true, options.prefer()
	return nil
}

// EOF returns the error for a stream that ended while the Reply was awaited, b being the octets
// received: an *Error with CodeClosed, or the earlier failure.
func (i *Initiator) EOF(b []byte) error { return startupEOF(i.err, b) }

// Fallback returns the Config for a second attempt, plain and at revision 1, if the stream ended
// while the Reply was awaited; b holds the octets received. ok reports whether such an attempt makes
// sense: a peer that closes without sending anything may know RFC 5044 alone, and the initiator
// "MAY" try again on a new connection (RFC 6581 Section 10). Read depths and peer-to-peer are then
// up to the ULPs. PrivateData is borrowed as before.
func (i *Initiator) Fallback(b []byte) (cfg Config, ok bool) {
	if i.state != stateWait || i.cfg.rev() == 1 || len(b) > 0 {
		return Config{}, false
	}
	cfg = i.cfg
	cfg.Rev, cfg.Plain, cfg.PeerToPeer = 1, true, false
	return cfg, true
}

func startupEOF(err error, b []byte) error {
	if err != nil {
		return err
	}
	return &Error{Code: CodeClosed, Got: uint32(len(b)), Want: StartupHeaderLen}
}

// Result returns the outcome. It is valid after Input has returned n > 0 and no error. After an
// *Error its Rev, CRC and SendMarkers are valid, because the Terminate is sent according to them.
func (i *Initiator) Result() *Negotiation { return &i.result }
