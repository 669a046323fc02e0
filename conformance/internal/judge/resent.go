package judge

import (
	"bytes"
	"fmt"

	"github.com/stag-rdma/stag/conformance/internal/decode"
	"github.com/stag-rdma/stag/rdmap/mpa"
)

// resent withdraws what was found in an FPDU whose octets TCP has sent again with other contents, if those make it
// right: damage on the way to the capture, or a retransmission that a middlebox has rewritten. What the
// receiver took is unknown.
type resent struct {
	*conn
	sides [2]resentSide
}

// resentSide is one direction: the last FPDU that was found wrong, and the last octets that were sent twice.
type resentSide struct {
	wrong   []*Violation
	raw     []byte
	at      uint64
	again   []byte
	againAt uint64
}

func (m *resent) event(ev *decode.Event) {
	s := &m.sides[ev.Dir]
	if ev.Again != nil {
		s.again, s.againAt = append(s.again[:0], ev.Again...), ev.Offset
	}
	if ev.Kind == decode.KindFPDU && len(m.fold.now) > 0 {
		s.wrong = nil
		for _, v := range m.fold.now {
			if v.Dir == ev.Dir && !v.Rule.is(acceptance) {
				s.wrong = append(s.wrong, v)
			}
		}
		s.raw, s.at = append(s.raw[:0], ev.Raw...), ev.Offset
	}
	if len(s.wrong) > 0 && s.right(m.info.CRC) {
		for _, v := range s.wrong {
			m.withdraw(v)
		}
		s.wrong = nil
	}
}

func (m *resent) end() {}

// right reports whether the octets that were sent again change the wrong FPDU, and its CRC is right with them or means
// nothing.
func (s *resentSide) right(crc bool) bool {
	from, to := max(s.at, s.againAt), min(s.at+uint64(len(s.raw)), s.againAt+uint64(len(s.again)))
	if from >= to {
		return false
	}
	b := bytes.Clone(s.raw)
	copy(b[from-s.at:to-s.at], s.again[from-s.againAt:])
	if bytes.Equal(b, s.raw) {
		return false
	}
	return !crc || len(b) > mpa.CRCLen && mpa.ReadCRC(b[len(b)-mpa.CRCLen:]) == mpa.UpdateCRC(0, b[:len(b)-mpa.CRCLen])
}

// withdraw takes a violation back, and what followed from it.
func (c *conn) withdraw(v *Violation) {
	if v.Withdrawn {
		return
	}
	v.Withdrawn = true
	if v.accepted != nil {
		c.withdraw(v.accepted)
	}
	if c.j.withdrawn != nil {
		c.j.withdrawn(v)
	}
}

// withdrawn takes a violation out of the report.
func (b *Builder) withdrawn(v *Violation) {
	if v.Cause != nil {
		return
	}
	b.remove(v)
	why := "the octets were sent again, and are right then"
	if v.Conn.Carrier != decode.CarrierTCP {
		why = "packets before it are, or may be, missing from the capture"
	}
	b.unknown(b.conn(v.Conn), fmt.Sprintf("frame %d %v: whether %s is broken: %s", v.Frame, v.Dir, v.Rule.ID, why))
}
