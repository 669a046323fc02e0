package decode

import (
	"errors"
	"fmt"

	"github.com/stag-rdma/stag/rdmap/mpa"
)

// CRCState is the outcome of checking an FPDU's CRC.
type CRCState uint8

const (
	CRCOff  CRCState = iota // neither side asked for CRCs, so the field has no meaning
	CRCGood                 // the CRC matches
	CRCBad                  // it does not
)

// String returns "off", "ok" or "bad".
func (s CRCState) String() string { return [...]string{"off", "ok", "bad"}[s] }

// FPDU is one FPDU (RFC 5044 Section 4.1).
type FPDU struct {
	ULPDU    []byte // the DDP segment in it, 0 to 65535 octets, markers removed
	Pad      []byte // 0 to 3 octets, which should be zero but are not with Linux siw. Nil with Markers
	CRC      uint32 // the field as it stands
	CRCState CRCState
	Markers  int // octets of markers in it (RFC 5044 Section 4.3)
}

// fpdu decodes the FPDU at index at of a side's buffer and returns its length, 0 if it is not complete. A
// bad CRC does not end the decoding: the length is believed, so that the next frames can still be seen.
func (c *Conn) fpdu(dir Dir, at int) int {
	s := &c.sides[dir]
	d := s.marks
	if d == nil {
		d = new(mpa.Deframer)
	}
	b := s.buf[at:]
	n := d.Need(b)
	if s.strays(b) || len(b) < n {
		return 0
	}
	n = d.Need(b) // the length field is there now, if it was not before
	if len(b) < n {
		return 0
	}
	ev := c.frame(KindFPDU, dir, at, n)
	c.fp = FPDU{CRC: mpa.ReadCRC(b[n-mpa.CRCLen:])}
	ev.FPDU = &c.fp
	err := c.deframe(ev, d, b[:n])
	if err == nil {
		c.segment(ev)
	}
	c.visit(ev)
	if err != nil {
		s.lose(err)
	}
	return n
}

// deframe takes the whole FPDU in b apart and checks its CRC. After an error the stream cannot be followed.
func (c *Conn) deframe(ev *Event, d *mpa.Deframer, b []byte) error {
	f := &c.fp
	if c.Info.CRC {
		f.CRCState = CRCGood
		check := *d // so that d does not stop at a bad CRC
		check.CRC = true
		_, _, err := check.Next(c.squeezable(ev.Dir, b))
		if bad, ok := errors.AsType[*mpa.Error](err); ok && bad.Code == mpa.CodeCRC {
			f.CRCState = CRCBad
			ev.fail(fmt.Errorf("%w: %w", ErrCRC, err))
		}
	}
	ulpdu, _, err := d.Next(c.squeezable(ev.Dir, b))
	if err != nil {
		ev.Err = fmt.Errorf("%w: %w", ErrMarkers, err) // also of a bad CRC: it was summed over other octets
		return ev.Err
	}
	f.ULPDU = ulpdu
	f.Markers = len(b) - mpa.FPDULen(len(ulpdu))
	if f.Markers == 0 {
		f.Pad = b[mpa.HeaderLen+len(ulpdu) : len(b)-mpa.CRCLen]
	}
	return nil
}

// squeezable returns b, or a copy of it if markers will be squeezed out: events show the octets as they were
// sent.
func (c *Conn) squeezable(dir Dir, b []byte) []byte {
	if c.sides[dir].marks == nil {
		return b
	}
	c.scratch = append(c.scratch[:0], b...)
	return c.scratch
}

// fail records the first thing wrong with an event.
func (e *Event) fail(err error) {
	if e.Err == nil {
		e.Err = err
	}
}
