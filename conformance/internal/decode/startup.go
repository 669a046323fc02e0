package decode

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/stag-rdma/stag/rdmap/mpa"
	"github.com/stag-rdma/stag/rdmap/verbs"
	"github.com/stag-rdma/stag/rpcrdma"
	"github.com/stag-rdma/stag/xdr"
)

// Startup is an MPA startup frame (RFC 5044 Section 7.1.1, RFC 6581 Section 6). If it is malformed, the
// fields hold what could be read.
type Startup struct {
	mpa.Frame

	IsReply  bool
	Flags    byte // M 0x80, C 0x40, R 0x20, S 0x10, reserved 0x0f, as on the wire
	PDLength int  // PD_Length as on the wire

	// CM is the RPC-over-RDMA private data (RFC 8797 Section 4), nil if there is none.
	CM *rpcrdma.PrivateData
	// Stag is the capability block of a stag engine, nil if there is none.
	Stag *StagCapability

	At Stamp // the packet that completed it
}

// clone returns a copy that shares no octets with s.
func (s *Startup) clone() *Startup {
	c := *s
	c.PrivateData = slices.Clone(s.PrivateData)
	return &c
}

// startupLen looks at the first octets of a stream. key reports whether the octets that are there match a
// startup key; n is the length of the frame, 0 while it is unknown.
func startupLen(b []byte) (key bool, n int) {
	m := min(len(b), len(mpa.RequestKey))
	if string(b[:m]) != mpa.RequestKey[:m] && string(b[:m]) != mpa.ReplyKey[:m] {
		return false, 0
	}
	if len(b) < mpa.StartupHeaderLen {
		return true, 0
	}
	return true, mpa.StartupHeaderLen + pdLength(b)
}

// pdLength returns PD_Length of the frame in b, which holds its header.
func pdLength(b []byte) int { return int(binary.BigEndian.Uint16(b[18:])) }

// parseStartup decodes a whole frame with a right key. The error is the codec's; even then the fields that
// could be read are filled in.
func parseStartup(b []byte) (*Startup, error) {
	s := &Startup{IsReply: string(b[:len(mpa.ReplyKey)]) == mpa.ReplyKey, Flags: b[16], PDLength: pdLength(b)}
	var err error
	if s.IsReply {
		var r mpa.Reply
		r, _, err = mpa.ParseReply(b)
		s.Frame = r.Frame
	} else {
		var r mpa.Request
		r, _, err = mpa.ParseRequest(b)
		s.Frame = r.Frame
	}
	if cm, ok := rpcrdma.ParsePrivateData(s.PrivateData); ok {
		s.CM = &cm
	}
	s.Stag = parseCapability(s.PrivateData)
	return s, err
}

// startup decodes the startup frame of a side, or finds that there is none.
func (c *Conn) startup(dir Dir) {
	s := &c.sides[dir]
	key, n := startupLen(s.buf)
	switch {
	case !key && s.joined:
		c.middle(dir)
		return
	case !key:
		c.notStartup(dir)
		return
	case n == 0 || len(s.buf) < n:
		return
	}
	c.frameOfStartup(dir, n)
}

// overlong gives up waiting for a startup frame that is longer than one can be, once its peer goes on or it ends. Where the frames
// after it begin is unknown.
func (c *Conn) overlong(dir Dir) {
	s := &c.sides[dir]
	if key, n := startupLen(s.buf); s.phase != phaseStartup || !key || n <= mpa.StartupHeaderLen+mpa.MaxPrivateData || s.joined {
		return
	}
	if err := c.frameOfStartup(dir, len(s.buf)); err != nil {
		c.lose(dir, err)
	}
}

// frameOfStartup takes the startup frame in the first n octets of a side.
func (c *Conn) frameOfStartup(dir Dir, n int) error {
	s := &c.sides[dir]
	f, err := parseStartup(s.buf[:n])
	if peer := &c.sides[1-dir]; c.Info.Foreign && f.IsReply && errors.Is(peer.why, ErrNotMPA) && peer.off > 0 {
		// It was MPA after all: nothing else is answered by a Reply.
		c.Info.Foreign = false
		peer.why = fmt.Errorf("%w: no key, and the peer answers by a Reply", ErrStartup)
		c.undecoded(1-dir, nil, peer.off, s.from.find(s.off), s.from.find(s.off), peer.why)
	}
	ev := c.frame(KindStartup, dir, 0, n)
	f.At = Stamp{ev.Frame, ev.Time}
	ev.Startup, ev.Err = f, err
	switch ok := c.note(dir, f); {
	case !ok && (s.joined || c.Info.Unknown&UnknownStartup != 0): // the frame that this one answers came before the capture
		c.noStartup()
	case !ok:
		ev.fail(fmt.Errorf("%w: %w", ErrStartup, mpa.ErrRole))
	}
	c.visit(ev)
	s.consume(n)
	s.phase = phaseHold
	c.settle(1 - dir)
	c.settle(dir)
	return err
}

// note records what a startup frame says. It returns false for a frame of the wrong kind: a Reply that
// answers nothing, a Request that answers a Request (RFC 5044 Section 7.1.2).
func (c *Conn) note(dir Dir, f *Startup) bool {
	switch {
	case !f.IsReply && c.Info.Request == nil:
		c.Info.Request, c.Info.Initiator = f.clone(), dir
	case f.IsReply && c.Info.Request != nil && c.Info.Initiator != dir:
		c.Info.Reply = f.clone()
	default:
		return false
	}
	c.Info.CRC = c.Info.CRC || f.CRC
	if f.CM != nil && c.Info.ULP == ULPAuto {
		c.Info.ULP = ULPRPCRDMA
	}
	return true
}

// notStartup handles a side that does not begin with a key. This is another protocol, unless the peer spoke
// MPA.
func (c *Conn) notStartup(dir Dir) {
	peer := &c.sides[1-dir]
	if tls, more := beginsTLS(c.sides[dir].buf); c.Info.Encrypted || peer.phase == phaseStartup && peer.end() == 0 && (tls || more) {
		if !more || c.Info.Encrypted {
			c.encrypted(dir)
		}
		return
	}
	if s := &c.sides[dir]; peer.phase == phaseRecord || peer.phase == phaseStartup && peer.end() == 0 && beginsRecord(s.buf) {
		c.Info.Foreign = true
		s.phase = phaseRecord
		c.records(dir)
		return
	}
	if peer.phase == phaseStartup || peer.closed && peer.end() == 0 || c.Info.Foreign {
		c.Info.Foreign = true
		c.lose(dir, ErrNotMPA)
		return
	}
	c.lose(dir, fmt.Errorf("%w: no key", ErrStartup))
	c.settle(1 - dir)
}

// settle moves on a side that waits for its peer's startup, once that is known or will never come.
//
// A peer that sent something else in place of a startup frame settles the matter too: Linux
// siw as initiator answers a Reply with a wrong key by a Terminate FPDU.
func (c *Conn) settle(dir Dir) {
	s, peer := &c.sides[dir], &c.sides[1-dir]
	if s.phase != phaseHold || peer.phase == phaseStartup && !peer.closed {
		return
	}
	switch {
	case peer.closed && peer.phase == phaseStartup:
		c.lose(dir, ErrNoReply)
		return
	case c.rejected():
		c.lose(dir, ErrRejected)
		return
	}
	s.phase = phaseFPDU
	if c.markers(dir) {
		s.marks = new(mpa.Deframer)
		s.marks.ExpectMarkers()
	}
	c.advance(dir)
}

// rejected reports whether the responder refused (RFC 5044 Section 7.1.2).
func (c *Conn) rejected() bool { return c.Info.Reply != nil && c.Info.Reply.Rejected }

// markers reports whether side dir must insert markers: the peer's startup frame asked for them.
func (c *Conn) markers(dir Dir) bool {
	f := c.Info.Request
	if dir == c.Info.Initiator {
		f = c.Info.Reply
	}
	return f != nil && f.Markers
}

// StagCapability is what a stag engine announces in the last 12 octets of its private data:
//
//	0  4  "stag"
//	4  1  version, 1
//	5  1  length, 12
//	6  2  largest ULPDU accepted, octets
//	8  4  features: bit 0 interleaving, bits 1 to 3 extensions
type StagCapability struct {
	MULPDU     uint16
	Interleave bool             // whole Sends may arrive between the segments of a tagged message
	Extensions verbs.Extensions // offered; in use are those that both sides offer
}

const capabilityLen = 12

// parseCapability reads the block at the end of private data; nil when there is none.
func parseCapability(private []byte) *StagCapability {
	if len(private) < capabilityLen {
		return nil
	}
	b := private[len(private)-capabilityLen:]
	if string(b[:6]) != "stag\x01\x0c" {
		return nil
	}
	features := binary.BigEndian.Uint32(b[8:])
	return &StagCapability{
		MULPDU: binary.BigEndian.Uint16(b[6:]), Interleave: features&1 != 0,
		Extensions: verbs.Extensions(features >> 1 & 7),
	}
}

// CCP is a message of the Connection Configuration Protocol, procedure CONF_RDMA (RFC 5666
// Section 6). All sizes are octets.
type CCP struct {
	MaxCallSend  uint32 // call and reply: largest inline call
	MaxReplySend uint32 // call: largest inline reply
	Align        uint32 // reply: alignment for RDMA_MSGP, 0 or 1 for none
	MaxRDMARead  uint32 // call and reply: RDMA Reads that may be outstanding towards the sender
}

// parse reads the three words of either message.
func (c *CCP) parse(d *xdr.Decoder, reply bool) error {
	c.MaxCallSend = d.Uint32()
	if reply {
		c.Align = d.Uint32()
	} else {
		c.MaxReplySend = d.Uint32()
	}
	c.MaxRDMARead = d.Uint32()
	return d.ErrIn("CONF_RDMA")
}
