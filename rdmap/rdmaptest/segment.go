package rdmaptest

import "github.com/stag-rdma/stag/rdmap/ddp"

// rdmapVersion1 is RV of a control octet, RFC 5040 Section 4.1; the opcode goes below.
const rdmapVersion1 = 0x40

// Untagged returns the header of a message of one segment, with the RDMAP opcode and
// on the queue given: the next message of that queue, right in every field. Calls count
// the queue's messages. A test changes what it wants to be wrong, or Last and MO for
// longer messages.
func (p *Peer) Untagged(opcode uint8, qn uint32) ddp.Segment {
	if p.msn == nil {
		p.msn = make(map[uint32]uint32)
	}
	p.msn[qn]++
	return ddp.Segment{Last: true, Control: rdmapVersion1 | opcode, QN: qn, MSN: p.msn[qn]}
}

// Tagged returns the header of a message of one segment that goes to offset to of the
// other side's stag, right in every field.
func (p *Peer) Tagged(opcode uint8, stag ddp.STag, to uint64) ddp.Segment {
	return ddp.Segment{Tagged: true, Last: true, Control: rdmapVersion1 | opcode, STag: stag, TO: to}
}

// SendSegment writes one FPDU with the segment. What s cannot say, like another DDP
// version, a test says by Send with octets of its own.
func (p *Peer) SendSegment(s ddp.Segment, payload []byte) error {
	return p.Send(append(s.Append(nil), payload...))
}

// NextSegment returns the segment of the next FPDU. io.EOF is the end of the stream
// between two FPDUs. A ULPDU that is too short for a header is a payload behind an empty
// one.
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
