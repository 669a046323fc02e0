package mpa

import (
	"errors"
	"slices"
)

// Reasons of a RefuseError, besides ErrMarkers.
var (
	// errPlain: the Request is not enhanced and Config.RefusePlain is set.
	errPlain = errors.New("plain request where an enhanced one is required")
	// ErrPeerIRD: the Request's IRD is below Config.MinORD.
	ErrPeerIRD = errors.New("the initiator's IRD is too low")
)

// Responder is the startup machine of the side that waits for the Request (RFC 5044 Section 7.1.2,
// RFC 6581 Section 9). It is used by one goroutine at a time.
//
//	wait --Input: Request--> decide --Accept--> done
//	                           |----Reject--> failed
//
// After the Reply the responder MUST receive and validate one FPDU before it sends
// any (RFC 5044 Section 7.1.2). If Result().RTR is not 0, that FPDU must be one of
// the RTR messages named there.
type Responder struct {
	cfg    Config
	state  startupState
	req    Request
	result Negotiation
	err    error
}

// NewResponder returns a Responder. The error is a *FormatError that names the
// field of cfg that cannot be sent. cfg is copied.
func NewResponder(cfg *Config) (*Responder, error) {
	r := &Responder{cfg: *cfg, state: stateWait}
	if err := r.cfg.check("reply", NotNegotiated-1); err != nil {
		return nil, err
	}
	if r.cfg.RTR == 0 {
		r.cfg.RTR = rtrAll
	}
	return r, nil
}

// Input looks at b, everything received so far, which is borrowed. n == 0 with a nil error means
// that more is needed. Once the Request is complete, n is its length, Request is valid, and the
// caller answers with Accept or Reject. Errors:
//
//   - *FormatError: close the connection, send nothing;
//   - *RefuseError: the Config refuses the Request, or it has revision 0: answer with
//     Reject, close. By RFC 5044 Appendix C, peers of the RDMA Consortium should learn
//     which revision is accepted;
//   - ErrState: no Request is expected.
//
// Octets after the Request are a *FormatError, since an initiator may not send any before the Reply;
// so pass everything that was read.
func (r *Responder) Input(b []byte) (n int, err error) {
	switch r.state {
	case stateFailed:
		return 0, r.err
	case stateWait:
	default:
		return 0, ErrState
	}
	r.req, n, err = ParseRequest(b)
	r.req.PrivateData = slices.Clone(r.req.PrivateData)
	if err == nil && n > 0 && r.cfg.MaxRev != 0 && r.req.Rev > r.cfg.MaxRev {
		err = &FormatError{"request", "Rev", offRev, ErrRevision}
	}
	if err == nil && n > 0 && len(b) > n {
		err = &FormatError{"request", "end", n, ErrTrailing}
	}
	if err != nil {
		r.state, r.err = stateFailed, err
		if n > 0 && r.req.Rev == 0 && errors.Is(err, ErrRevision) {
			r.state, r.err = stateDecide, &RefuseError{err}
		}
		return n, r.err
	}
	if n == 0 {
		return 0, nil
	}
	r.state = stateDecide
	if err := r.policy(); err != nil {
		r.err = &RefuseError{err}
		return n, r.err
	}
	return n, nil
}

// policy returns why the Request cannot be accepted, or nil.
func (r *Responder) policy() error {
	switch w := &r.req.Word; {
	case r.req.Markers && !r.cfg.Markers:
		return ErrMarkers
	case !r.req.Enhanced && r.cfg.RefusePlain:
		return errPlain
	case r.req.Enhanced && w.IRD != NotNegotiated && w.IRD < r.cfg.MinORD:
		return ErrPeerIRD
	}
	return nil
}

// Request returns the Request. It is valid after Input has returned n > 0 and no *FormatError. Its
// private data is a copy.
func (r *Responder) Request() *Request { return &r.req }

// Accept appends the accepting Reply to b and determines Result. The caller must be ready to receive
// FPDUs before it sends the Reply (RFC 5044 Section 7.1.2). privateData, at most 512 octets, or 508
// if the Request was enhanced, is borrowed. Errors: ErrState if there is no acceptable Request; a
// *FormatError if privateData is too long, after which Accept or Reject can be called again.
func (r *Responder) Accept(b, privateData []byte) ([]byte, error) {
	if r.state != stateDecide || r.err != nil {
		return b, ErrState
	}
	reply := r.reply(privateData)
	out, err := reply.Append(b)
	if err != nil {
		return b, err
	}
	r.state = stateDone
	r.settle(&reply)
	return out, nil
}

// Reject appends a Reply with R=1 to b; the caller sends it and closes the connection. privateData
// may tell the peer why; it is borrowed. The errors are those of Accept.
func (r *Responder) Reject(b, privateData []byte) ([]byte, error) {
	if r.state != stateDecide {
		return b, ErrState
	}
	reply := r.reply(privateData)
	reply.Rejected, reply.Markers = true, false // nothing will be received
	if errors.Is(r.err, ErrPeerIRD) {
		reply.Word.ORD = r.cfg.MinORD // RFC 6581 Section 9.1: the ORD we need
	}
	out, err := reply.Append(b)
	if err != nil {
		return b, err
	}
	r.state = stateFailed
	if r.err == nil {
		r.err = ErrState
	}
	return out, nil
}

// reply builds the Reply in the shape of the Request: S=1 is answered by S=1, and S=0 by S=0 (RFC
// 6581 Section 10).
// Choice: the revision is echoed, and so is C, which changes nothing but is what
// other implementations do. Revision 0 is refused by a Reply of revision 1.
func (r *Responder) reply(privateData []byte) Reply {
	f := Frame{
		Rev: max(r.req.Rev, 1), CRC: !r.cfg.NoCRC || r.req.CRC, Markers: r.cfg.WantMarkers,
		Enhanced: r.req.Enhanced, PrivateData: privateData,
	}
	if f.Enhanced {
		f.Word = r.word()
	}
	return Reply{f}
}

// word answers the enhanced word of the Request, RFC 6581 Section 9.
func (r *Responder) word() Enhanced {
	req := &r.req.Word
	w := Enhanced{IRD: NotNegotiated, ORD: NotNegotiated}
	if req.PeerToPeer {
		w.PeerToPeer, w.RTR = true, r.rtr(req.RTR)
	}
	// If the peer sent NotNegotiated, our value MUST stay as it is; the Reply mirrors it.
	if req.ORD != NotNegotiated {
		w.IRD = min(req.ORD, r.cfg.IRD)
		if w.RTR&RTRRead != 0 {
			w.IRD = max(w.IRD, 1)
		}
	}
	if req.IRD != NotNegotiated {
		w.ORD = min(req.IRD, r.cfg.ORD)
	}
	return w
}

// rtr returns the options to offer. Choice: Send is offered only if the initiator can send nothing
// else, because it takes a message number of queue 0; and if nothing matches, everything that we
// accept is offered.
func (r *Responder) rtr(asked RTR) RTR {
	match := asked & r.cfg.RTR
	if cheap := match &^ RTRSend; cheap != 0 {
		return cheap
	}
	if match != 0 {
		return match
	}
	return r.cfg.RTR
}

func (r *Responder) settle(reply *Reply) {
	q := &r.req
	r.result = Negotiation{
		Rev: q.Rev, Enhanced: q.Enhanced, CRC: reply.CRC, SendMarkers: q.Markers,
		RecvMarkers: reply.Markers,
		IRD:         r.cfg.IRD, ORD: r.cfg.ORD,
		PeerIRD: NotNegotiated, PeerORD: NotNegotiated,
		PrivateData: q.PrivateData,
	}
	if !q.Enhanced {
		r.result.ORD = unagreed(r.cfg.ORD)
		return
	}
	res, w := &r.result, &reply.Word
	res.PeerIRD, res.PeerORD = q.Word.IRD, q.Word.ORD
	res.PeerToPeer, res.RTR = w.PeerToPeer, w.RTR
	res.IRD, res.ORD = clamp(r.cfg.IRD, w.IRD), clamp(r.cfg.ORD, w.ORD)
	if w.IRD != NotNegotiated {
		res.IRD = w.IRD // may have been raised for an RTR Read
	}
}

// EOF returns the error for a stream that ended while the Request was awaited, b being the octets
// received: an *Error with CodeClosed, or the earlier failure.
func (r *Responder) EOF(b []byte) error { return startupEOF(r.err, b) }

// Result returns the outcome. It is valid after Accept has succeeded.
func (r *Responder) Result() *Negotiation { return &r.result }
