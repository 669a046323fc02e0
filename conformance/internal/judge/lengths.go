package judge

import (
	"encoding/binary"

	"github.com/stag-rdma/stag/conformance/internal/decode"
	"github.com/stag-rdma/stag/rdmap/verbs"
)

// lengths judges whole untagged messages by themselves: their length, and fields with
// few legal values.
type lengths struct{ *conn }

// fixed lists the messages of fixed length, in octets, and the rules about it.
var fixed = map[verbs.Opcode]struct {
	rule     string
	min, max int
}{
	verbs.OpReadRequest:         {"RDMAP-010", 28, 28},
	verbs.OpImmediate:           {"RDMAP-011", 8, 8},
	verbs.OpImmediateSE:         {"RDMAP-011", 8, 8},
	verbs.OpAtomicRequest:       {"RDMAP-012", 52, 52},
	verbs.OpAtomicResponse:      {"RDMAP-013", 12, 12},
	verbs.OpFlushRequest:        {"RDMAP-014", 20, 20},
	verbs.OpVerifyRequest:       {"RDMAP-015", 16, maxHash + 16},
	verbs.OpAtomicWriteRequest:  {"RDMAP-016", 24, 24},
	verbs.OpFlushResponse:       {"RDMAP-017", 0, 0},
	verbs.OpAtomicWriteResponse: {"RDMAP-017", 0, 0},
}

// maxHash is the length of the longest plausible hash of a Verify, in octets. The draft leaves the algorithm
// to the two sides; 64 is SHA-512.
const maxHash = 64

func (m *lengths) event(ev *decode.Event) {
	if ev.Message == nil || m.lost[ev.Dir] {
		return
	}
	b := ev.Message.Payload
	if l, ok := fixed[ev.Message.Op]; ok && (len(b) < l.min || len(b) > l.max) {
		m.violate(l.rule, "%v of %d octets", ev.Message.Op, len(b))
		m.lose(ev.Dir)
		return
	}
	switch ev.Message.Op {
	case verbs.OpAtomicRequest:
		m.atomic(b)
	case verbs.OpFlushRequest:
		if flags := binary.BigEndian.Uint32(b[16:]); flags&^uint32(verbs.FlushPersistent|verbs.FlushVisible) != 0 {
			m.violate("RDMAP-021", "flags %#08x", flags)
		}
	case verbs.OpAtomicWriteRequest:
		if n := binary.BigEndian.Uint32(b[4:]); n != 8 {
			m.violate("RDMAP-022", "length %d", n)
		}
	default:
	}
}

func (m *lengths) end() {}

// atomic judges the fields of an Atomic Request, RFC 7306 Section 5.2.1.
func (m *lengths) atomic(b []byte) {
	be := binary.BigEndian
	word := be.Uint32(b)
	op := verbs.AtomicOp(word & 0x0f)
	switch {
	case op > verbs.AtomicCmpSwap:
		m.violate("RDMAP-018", "operation %d", op)
	case op == verbs.AtomicFetchAdd && (be.Uint64(b[36:]) != 0 || be.Uint64(b[44:]) != ^uint64(0)):
		m.violate("RDMAP-020", "compare data %#x, mask %#x", be.Uint64(b[36:]), be.Uint64(b[44:]))
	}
	if word>>4 != 0 {
		m.violate("RDMAP-019", "%#08x", word)
	}
}
