package decode

import (
	"fmt"

	"github.com/stag-rdma/stag/rdmap/ddp"
	"github.com/stag-rdma/stag/rdmap/verbs"
)

// DDP is one DDP segment (RFC 5041 Section 4).
type DDP struct {
	ddp.Segment
	Payload []byte // what follows the header in the ULPDU
}

// RDMAP is what the RDMAP layer puts into the header of a segment (RFC 5040 Section 4.1).
type RDMAP struct {
	Op      verbs.Opcode
	Version uint8 // RV, 1 in a legal segment

	// Invalidate is the STag to invalidate. It has a meaning only for the two Sends that invalidate one
	// ([verbs.Opcode.Invalidates]).
	Invalidate ddp.STag
}

// opcode returns the opcode of a control octet. Its fifth bit is reserved in RFC 5040, and part of the
// opcode in the commit draft, whose two opcodes with that bit are untagged.
func opcode(control uint8, tagged bool) verbs.Opcode {
	if tagged {
		return verbs.Opcode(control & 0x0f)
	}
	return verbs.Opcode(control & 0x1f)
}

// segment decodes the DDP segment in an FPDU, and the message that it completes.
func (c *Conn) segment(ev *Event) {
	c.ddp = DDP{}
	d := &c.ddp
	if !d.Parse(ev.FPDU.ULPDU) {
		ev.fail(fmt.Errorf("%w: ULPDU of %d octets", ErrShort, len(ev.FPDU.ULPDU)))
		return
	}
	d.Payload = ev.FPDU.ULPDU[d.HeaderLen():]
	c.rdmap = RDMAP{Op: opcode(d.Control, d.Tagged), Version: d.Control >> 6, Invalidate: ddp.STag(d.ULP)}
	r := &c.rdmap
	ev.DDP, ev.RDMAP = d, r
	if err := checkSegment(d, r); err != nil {
		ev.fail(err)
		return
	}
	if d.Tagged {
		c.tagged(ev)
	} else {
		c.untagged(ev)
	}
	c.commit(ev)
}

// checkSegment returns an error that makes it pointless to look past the headers.
func checkSegment(d *DDP, r *RDMAP) error {
	switch {
	case d.DV != ddp.Version:
		return fmt.Errorf("%w: DDP %d", ErrVersion, d.DV)
	case r.Version != rdmapVersion:
		return fmt.Errorf("%w: RDMAP %d", ErrVersion, r.Version)
	case r.Op > verbs.OpAtomicWriteResponse || r.Op.Tagged() != d.Tagged:
		return fmt.Errorf("%w: %v, tagged %t", ErrOpcode, r.Op, d.Tagged)
	case !d.Tagged && r.Op.Queue() != d.QN:
		return fmt.Errorf("%w: %v on queue %d", ErrOpcode, r.Op, d.QN)
	}
	return nil
}

// rdmapVersion is the RDMAP version of RFC 5040; 0 is the RDMA Consortium's.
const rdmapVersion = 1

// tagged handles a segment of an RDMA Write or Read Response.
func (c *Conn) tagged(ev *Event) {
	if c.Info.ULP != ULPRPCRDMA {
		return
	}
	if ev.RDMAP.Op == verbs.OpWrite {
		c.rpc.write(ev)
		return
	}
	c.rpc.readResponse(ev)
}
