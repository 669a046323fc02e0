package rdmaptest

import "github.com/stag-rdma/stag/rdmap/ddp"

// rdmapVersion1 is RV in a control octet (RFC 5040 Section 4.1); the opcode is in the low bits.
const rdmapVersion1 = 0x40

// Untagged returns the header of the next message on queue qn, with one segment and the given RDMAP
// opcode. Every field is right; each call counts as one message of the queue. A test changes the
// fields that it wants to be wrong, or Last and MO for longer messages.
func (p *Peer) Untagged(opcode uint8, qn uint32) ddp.Segment {
	if p.msn == nil {
		p.msn = make(map[uint32]uint32)
	}
	p.msn[qn]++
	return ddp.Segment{Last: true, Control: rdmapVersion1 | opcode, QN: qn, MSN: p.msn[qn]}
}

// Tagged returns the header of a message of one segment for TO to of the other side's stag. Every
// field is right.
func (p *Peer) Tagged(opcode uint8, stag ddp.STag, to uint64) ddp.Segment {
	return ddp.Segment{Tagged: true, Last: true, Control: rdmapVersion1 | opcode, STag: stag, TO: to}
}

// SendSegment writes one FPDU with the segment. For what s cannot express, such as another DDP
// version, a test calls Send with octets of its own. payload is borrowed.
func (p *Peer) SendSegment(s ddp.Segment, payload []byte) error {
	return p.Send(append(s.Append(nil), payload...))
}

// NextSegment returns the header and the payload of the segment in the next FPDU. For a ULPDU that is
// too short for a header, it returns a zero header and the ULPDU. Its errors are those of Next.
func (p *Peer) NextSegment() (ddp.Segment, []byte, error) {
	u, err := p.Next()
	if err != nil {
		return ddp.Segment{}, nil, err
	}
	var s ddp.Segment
	if !s.Parse(u) {
		return ddp.Segment{}, u, nil
	}
	return s, u[s.HeaderLen():], nil
}
