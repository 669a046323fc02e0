package judge

import (
	"github.com/stag-rdma/stag/conformance/internal/decode"
	"github.com/stag-rdma/stag/rdmap/ddp"
	"github.com/stag-rdma/stag/rdmap/verbs"
)

// headers judges the headers of DDP and RDMAP by themselves, one segment at a time (RFC 5041
// Section 4, RFC 5040 Section 4.1), in the order in which an engine looks at them.
type headers struct {
	*conn
	drafted [2]bool // this direction uses opcodes of the commit draft that were not agreed on, which was reported
}

func (m *headers) event(ev *decode.Event) {
	if ev.FPDU == nil || ev.FPDU.CRCState == decode.CRCBad || m.lost[ev.Dir] {
		return
	}
	if ev.DDP == nil {
		m.fatal("DDP-001", "ULPDU of %d octets", len(ev.FPDU.ULPDU))
		return
	}
	d := ev.DDP
	if r := ev.FPDU.ULPDU[0] & reservedDDP; r != 0 {
		m.violate("DDP-003", "reserved bits %#02x", r)
	}
	switch {
	case d.DV != ddp.Version:
		m.fatal("DDP-002", "version %d", d.DV)
	case !d.Tagged && d.QN >= ddp.NumQueues:
		m.fatal("DDP-004", "queue %d", d.QN)
	default:
		m.rdmap(ev)
	}
}

func (m *headers) end() {}

// reservedDDP are the reserved bits of the DDP control octet.
const reservedDDP = 0x3c

// Bits of the RDMAP control octet that are reserved in RFC 5040. The second is part of the opcode in the
// commit draft, which sets it in untagged messages only.
const (
	reservedRDMAP  = 0x20
	reservedOpcode = 0x10
)

// rdmap judges the fields of RDMAP in the header.
func (m *headers) rdmap(ev *decode.Event) {
	d, r := ev.DDP, ev.RDMAP
	reserved := uint8(reservedRDMAP)
	if d.Tagged {
		reserved |= reservedOpcode
	}
	if d.Control&reserved != 0 {
		m.violate("RDMAP-002", "control octet %#02x", d.Control)
	}
	switch {
	case r.Version != 1:
		m.fatal("RDMAP-001", "version %d", r.Version)
	case r.Op > verbs.OpAtomicWriteResponse:
		m.fatal("RDMAP-003", "%v", r.Op)
	case r.Op.Tagged() != d.Tagged:
		m.fatal("RDMAP-004", "%v, tagged: %t", r.Op, d.Tagged)
	case !d.Tagged && r.Op.Queue() != d.QN:
		m.fatal("RDMAP-005", "%v on queue %d", r.Op, d.QN)
	case r.Op >= verbs.OpFlushRequest && !m.drafted[ev.Dir] && m.uncommitted():
		m.drafted[ev.Dir] = true
		m.violate("RDMAP-008", "%v", r.Op)
	case !d.Tagged && d.ULP != 0 && !r.Op.Invalidates() && r.Op < verbs.OpFlushRequest:
		m.violate("RDMAP-006", "%08x in a %v", d.ULP, r.Op)
	}
}

// uncommitted reports whether the startup shows that the sides have not agreed to use the commit draft. The draft
// has no negotiation of its own; stag engines offer it in their private data.
func (m *headers) uncommitted() bool {
	req, rep := m.info.Request, m.info.Reply
	if m.late || req == nil || rep == nil || m.info.Commit != nil || m.info.ULP == decode.ULPCommit {
		return false
	}
	offers := func(f *decode.Startup) bool { return f.Stag != nil && f.Stag.Extensions&verbs.ExtCommit != 0 }
	return !offers(req) || !offers(rep)
}

// fatal reports a header that makes the frame unusable and puts the direction in doubt.
func (m *headers) fatal(id, format string, args ...any) {
	m.violate(id, format, args...)
	m.lose(m.ev.Dir)
}
