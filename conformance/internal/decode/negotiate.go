package decode

import (
	"errors"
	"fmt"

	"github.com/stag-rdma/stag/rdmap/mpa"
)

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
