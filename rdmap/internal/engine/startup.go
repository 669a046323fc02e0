package engine

import (
	"encoding/binary"
	"errors"

	"github.com/stag-rdma/stag/rdmap/mpa"
	"github.com/stag-rdma/stag/rdmap/verbs"
)

// StagMULPDU is the largest ULPDU of MPA, octets (RFC 5044 Section 4.1). Two stag peers use it.
const StagMULPDU = 64768

// StartupConfig is what one side wants of the startup.
type StartupConfig struct {
	Initiator   bool
	MPA         mpa.Config // without private data
	PrivateData []byte     // of the upper layer, at the initiator
	Plain       bool       // no capability block
	Extensions  verbs.Extensions
	MULPDU      int // 0: chosen by what the peer is
	// Accept decides on a Request, at the responder. Nil accepts everything.
	Accept func(req *mpa.Request) (privateData []byte, err error)
}

// Startup is the startup of MPA with the capability block of stag (RFC 5044 Section 7.1, RFC 6581): it awaits one frame,
// and then has Params or has failed.
type Startup struct {
	cfg       StartupConfig
	initiator *mpa.Initiator // or
	responder *mpa.Responder
	peer      capability
}

// NewStartup returns a Startup, and the octets that an initiator sends first.
func NewStartup(cfg StartupConfig) (s *Startup, request []byte, err error) {
	s = &Startup{cfg: cfg}
	m := &s.cfg.MPA
	if !cfg.Initiator {
		s.responder, err = mpa.NewResponder(m)
		return s, nil, err
	}
	if m.RTR == 0 {
		m.RTR = mpa.RTRWrite | mpa.RTRRead
	}
	if m.ORD == 0 {
		if m.RTR &^= mpa.RTRRead; m.RTR == 0 { // a Read would need an outbound slot
			m.RTR = mpa.RTRWrite
		}
	}
	m.PrivateData = cfg.PrivateData
	if !cfg.Plain {
		m.PrivateData = withCapability(m.PrivateData, wordLen(m.Rev != 1), cfg.Extensions)
	}
	if s.initiator, err = mpa.NewInitiator(m); err != nil {
		return nil, nil, err
	}
	return s, s.initiator.AppendRequest(nil), nil
}

// Input takes everything that was received so far. Without an error, done says whether the startup is complete. reply
// is to be sent in any case: the Reply of a responder, or, with an error, what tells the peer about it.
func (s *Startup) Input(b []byte) (done bool, reply []byte, err error) {
	if s.cfg.Initiator {
		n, err := s.initiator.Input(b)
		if err != nil {
			return false, s.lateTerminate(&err), err
		}
		return n > 0, nil, nil
	}
	n, err := s.responder.Input(b)
	if _, refused := errors.AsType[*mpa.RefuseError](err); refused {
		return s.reject(nil, err) // a good frame that asks for what we do not do gets a Reply; a bad one gets none
	}
	if err != nil || n == 0 {
		return false, nil, err
	}
	return s.answer()
}

// EOF returns what is wrong with b, all that the peer has sent before it closed the stream.
func (s *Startup) EOF(b []byte) error {
	if s.cfg.Initiator {
		return s.initiator.EOF(b)
	}
	return s.responder.EOF(b)
}

// Older reports whether a peer that has sent b and has closed the stream may know only revision 1 (RFC 6581 Section 10).
func (s *Startup) Older(b []byte) bool {
	if !s.cfg.Initiator {
		return false
	}
	_, again := s.initiator.Fallback(b)
	return again
}

// answer answers an acceptable Request.
func (s *Startup) answer() (done bool, reply []byte, err error) {
	req := *s.responder.Request()
	ulp, peer, stag := splitCapability(req.PrivateData)
	if stag = stag && !s.cfg.Plain; stag {
		req.PrivateData = ulp // Accept sees what the upper layer of the peer has sent
	}
	var data []byte
	if s.cfg.Accept != nil {
		if data, err = s.cfg.Accept(&req); err != nil {
			return s.reject(data, err)
		}
	}
	if stag { // only a peer that has sent its block gets ours
		s.peer = peer
		data = withCapability(data, wordLen(req.Enhanced), s.cfg.Extensions)
	}
	reply, err = s.responder.Accept(nil, data)
	return err == nil, reply, err
}

func (s *Startup) reject(data []byte, cause error) (done bool, reply []byte, err error) {
	reply, err = s.responder.Reject(nil, data)
	if err != nil {
		return false, nil, errors.Join(cause, err)
	}
	return false, reply, cause
}

// lateTerminate returns the Terminate that RFC 6581 Section 8 asks for if an accepting Reply cannot be used: full
// operation has begun, so the initiator may send. err then becomes a *verbs.ProtocolError.
func (s *Startup) lateTerminate(err *error) (out []byte) {
	e, ok := errors.AsType[*mpa.Error](*err)
	if !ok || !e.Terminate() {
		return nil
	}
	neg := s.initiator.Result() // also the Terminate is framed as the Reply has agreed
	var snd Sender
	var w Work
	snd.MULPDU, snd.CRC = mpa.MinMULPDU, neg.CRC
	if neg.SendMarkers {
		w.startMarking()
	}
	p := protocolError(e, nil)
	snd.open(true)
	snd.Fail(p, false, false, nil)
	snd.Take(&w)
	_ = w.Build(snd.MULPDU, snd.CRC, nil)
	for _, b := range w.Batch.Pieces() {
		out = append(out, b...)
	}
	snd.Wrote(&w, false, nil)
	*err = p
	return out
}

// Params is the result of a startup.
type Params struct {
	mpa.Negotiation // PrivateData is that of the peer's upper layer
	Initiator       bool
	Stag            bool // the peer has sent a capability block
	Extensions      verbs.Extensions
	IRD, ORD        int // in force
	MULPDU          int // largest ULPDU to send
	interleave      bool
	emss            int // to align with; 0: not needed
}

// Params returns the result of a complete startup. emss is the segment size of the path. Peers other than stag get what
// fits into a TCP segment, since some handle FPDUs across segments badly.
func (s *Startup) Params(emss int) *Params {
	p := &Params{Initiator: s.cfg.Initiator}
	if s.cfg.Initiator {
		p.Negotiation = *s.initiator.Result()
	} else {
		p.Negotiation = *s.responder.Result()
	}
	if !s.cfg.Plain {
		if rest, peer, ok := splitCapability(p.PrivateData); ok {
			p.PrivateData, s.peer = rest, peer
		}
	}
	p.Stag = s.peer.mulpdu != 0 // a block never says 0
	p.interleave = s.peer.features&featInterleave != 0
	p.IRD, p.ORD = negotiated(p.Negotiation.IRD, s.cfg.MPA.IRD), negotiated(p.Negotiation.ORD, s.cfg.MPA.ORD)
	x := s.cfg.Extensions
	if p.Stag { // another peer has no way to say: whoever switched them on knows it
		x &= extensionsOf(s.peer.features)
	}
	p.Extensions = Normal(x)
	switch {
	case s.cfg.MULPDU != 0:
		p.MULPDU = s.cfg.MULPDU
	case p.Stag:
		p.MULPDU = min(max(int(s.peer.mulpdu), mpa.MinMULPDU), StagMULPDU)
	default:
		p.MULPDU = mpa.MULPDU(emss, p.SendMarkers)
	}
	if p.CRC && !p.Stag && !p.SendMarkers { // see alignment; with markers everything lies elsewhere
		p.emss = emss
	}
	return p
}

func negotiated(v, own uint16) int {
	if v == mpa.NotNegotiated {
		return int(own)
	}
	return int(v)
}

// extraSlots is how many requests beyond IRD are accepted while extensions are in force: RFC 7306
// Section 5.2 asks for queue 1 buffers for atomics in addition to those for Reads. This side's own
// requests stay within ORD all the same.
const extraSlots = 16

// Start puts p in force. An initiator's ready-to-receive message, the first FPDU, is then queued; it has no payload and
// no effect (RFC 6581 Section 9.2).
func (p *Params) Start(s *Sender, r *Receiver, w *Work) {
	r.Deframer.CRC = p.CRC
	if p.RecvMarkers {
		r.Deframer.ExpectMarkers()
	}
	if p.SendMarkers {
		w.startMarking()
	}
	if p.emss > 0 {
		w.alignment.emss = p.emss
		w.Batch.EndSegments()
	}
	s.MULPDU, s.CRC, s.ORD, s.ird = p.MULPDU, p.CRC, p.ORD, p.IRD
	s.interleave, s.Ext = p.interleave, p.Extensions
	s.open(p.Initiator)
	if p.Extensions != ExtBase {
		if s.ird > 0 { // else the upper layer wants no requests at all
			s.ird += extraSlots
		}
		r.admit(p.Extensions)
	}
	r.rtrSend = !p.Initiator && p.RTR&mpa.RTRSend != 0
	if !p.Initiator || p.RTR == 0 {
		return
	}
	op := verbs.OpSend
	switch p.RTR {
	default: // a Send
	case mpa.RTRWrite:
		op = verbs.OpWrite
	case mpa.RTRRead:
		op = verbs.OpReadRequest
	}
	s.Post(&verbs.WR{Op: op})
}

// wordLen returns how many octets of a startup frame the enhanced word takes.
func wordLen(enhanced bool) int {
	if enhanced {
		return mpa.EnhancedLen
	}
	return 0
}

// capability is the stag capability block: the last 12 octets of the MPA private
// data, after those of the upper layer (RFC 8797 data has to be at offset 0). A peer
// without it is a plain peer.
//
//	off 0, 4 octets: magic "stag"
//	off 4, 1: version, 1
//	off 5, 1: length of the block, 12
//	off 6, 2: largest ULPDU accepted, octets
//	off 8, 4: features
//
// Unknown feature bits are ignored. Octets that differ from this layout, or that accept no ULPDU at
// all, are not a block and belong to the upper layer.
//
// Choice: the block is this project's own; no document defines it.
type capability struct {
	mulpdu   uint16
	features uint32
}

const (
	capMagic   = 0x73746167
	capVersion = 1
	capLen     = 12

	// featInterleave: whole Sends may arrive between the segments of a tagged message.
	featInterleave = 1 << 0
	// Bits 1 to 3: the Extensions that are switched on.
	featExtensions = 1
	ownFeatures    = featInterleave
)

// maxPrivateData is the most private data that a startup frame gets, octets, including the enhanced
// word: Linux takes 256, RFC 5044 allows 512.
const maxPrivateData = 256

func (cp capability) append(b []byte) []byte {
	b = binary.BigEndian.AppendUint32(b, capMagic)
	b = append(b, capVersion, capLen)
	b = binary.BigEndian.AppendUint16(b, cp.mulpdu)
	return binary.BigEndian.AppendUint32(b, cp.features)
}

// splitCapability takes the block off the end of private data. ulp is the rest and aliases b.
func splitCapability(b []byte) (ulp []byte, cp capability, ok bool) {
	if len(b) < capLen {
		return b, cp, false
	}
	at := len(b) - capLen
	blk := b[at:]
	if binary.BigEndian.Uint32(blk) != capMagic || blk[4] != capVersion || blk[5] != capLen {
		return b, cp, false
	}
	cp.mulpdu = binary.BigEndian.Uint16(blk[6:])
	cp.features = binary.BigEndian.Uint32(blk[8:])
	if cp.mulpdu == 0 {
		return b, capability{}, false
	}
	return b[:at:at], cp, true // an append to ulp must not write over what follows
}

// extensionsOf returns the extensions among the features.
func extensionsOf(features uint32) verbs.Extensions {
	return verbs.Extensions(features>>featExtensions) & extAll
}

// ownCapability returns the block that this engine sends.
func ownCapability(x verbs.Extensions) capability {
	return capability{StagMULPDU, ownFeatures | uint32(x)<<featExtensions}
}

// withCapability returns ulp followed by the block, or ulp alone if there is no room for both and
// enhanced octets more.
func withCapability(ulp []byte, enhanced int, x verbs.Extensions) []byte {
	if len(ulp)+capLen+enhanced > maxPrivateData {
		return ulp // the upper layer's octets are needed, ours make things faster
	}
	return ownCapability(x).append(append(make([]byte, 0, len(ulp)+capLen), ulp...))
}
