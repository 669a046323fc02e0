package decode

import (
	"encoding/binary"
	"fmt"
	"strings"

	"github.com/stag-rdma/stag/rdmap/ddp"
	"github.com/stag-rdma/stag/rdmap/verbs"
)

// Extension is what a message of RFC 7306 or draft-talpey-rdma-commit says besides its opcode. The opcode
// decides which fields have a meaning:
//
//	Immediate Data          Data, 8 octets
//	Atomic Request          STag, TO: the word; ID; Atomic
//	Atomic Response         ID; Old
//	Flush Request           STag, Len, TO: the target; Flags
//	Verify Request          STag, Len, TO: the target; Data: the hash expected, or none
//	Verify Response         Data: the hash
//	Atomic Write Request    STag, Len, TO: the word; Data, 8 octets
type Extension struct {
	STag   ddp.STag
	Len    uint32
	TO     uint64
	Flags  verbs.FlushFlags
	ID     uint32
	Atomic verbs.Atomic
	Old    uint64
	Data   []byte // lent with the message
}

// extensionLen is the least payload of each opcode that has one, in octets.
var extensionLen = map[verbs.Opcode]int{
	verbs.OpImmediate: 8, verbs.OpImmediateSE: 8, verbs.OpAtomicRequest: 52, verbs.OpAtomicResponse: 12,
	verbs.OpFlushRequest: 20, verbs.OpVerifyRequest: 16, verbs.OpVerifyResponse: 1, verbs.OpAtomicWriteRequest: 24,
}

// parse reads the payload of a message; ok is false when it is too short for op.
func (x *Extension) parse(op verbs.Opcode, b []byte) (ok bool) {
	if len(b) < extensionLen[op] {
		return false
	}
	switch op {
	case verbs.OpImmediate, verbs.OpImmediateSE, verbs.OpVerifyResponse:
		x.Data = b
	case verbs.OpAtomicRequest:
		x.atomic(b)
	case verbs.OpAtomicResponse:
		x.ID, x.Old = binary.BigEndian.Uint32(b), binary.BigEndian.Uint64(b[4:])
	case verbs.OpFlushRequest:
		x.target(b)
		x.Flags = verbs.FlushFlags(b[19])
	case verbs.OpVerifyRequest, verbs.OpAtomicWriteRequest:
		x.target(b)
		x.Data = b[16:]
	default:
	}
	return true
}

// target reads the head of a commit request: STag, length, TO.
func (x *Extension) target(b []byte) {
	be := binary.BigEndian
	x.STag, x.Len, x.TO = ddp.STag(be.Uint32(b)), be.Uint32(b[4:]), be.Uint64(b[8:])
}

// atomic reads an Atomic Request, RFC 7306 Section 5.2.1.
func (x *Extension) atomic(b []byte) {
	be := binary.BigEndian
	x.ID, x.STag, x.TO = be.Uint32(b[4:]), ddp.STag(be.Uint32(b[8:])), be.Uint64(b[12:])
	x.Atomic = verbs.Atomic{
		Op: verbs.AtomicOp(b[3] & 0x0f), Operand: be.Uint64(b[20:]), Mask: be.Uint64(b[28:]),
		Compare: be.Uint64(b[36:]), CompareMask: be.Uint64(b[44:]),
	}
}

// text renders the extension for a message of opcode op.
func (x *Extension) text(b *strings.Builder, op verbs.Opcode) {
	switch op {
	case verbs.OpImmediate, verbs.OpImmediateSE:
		fmt.Fprintf(b, " | data=%x", x.Data)
	case verbs.OpAtomicRequest:
		a := &x.Atomic
		fmt.Fprintf(b, " | %v id=%d stag=%v to=%#x operand=%#x mask=%#x", a.Op, x.ID, x.STag, x.TO, a.Operand, a.Mask)
		if a.Op == verbs.AtomicCmpSwap {
			fmt.Fprintf(b, " compare=%#x compare_mask=%#x", a.Compare, a.CompareMask)
		}
	case verbs.OpAtomicResponse:
		fmt.Fprintf(b, " | id=%d old=%#x", x.ID, x.Old)
	case verbs.OpFlushRequest:
		fmt.Fprintf(b, " | stag=%v len=%d to=%#x flags=%#02x", x.STag, x.Len, x.TO, uint8(x.Flags))
	case verbs.OpVerifyRequest:
		fmt.Fprintf(b, " | stag=%v len=%d to=%#x hash=%x", x.STag, x.Len, x.TO, x.Data)
	case verbs.OpVerifyResponse:
		fmt.Fprintf(b, " | hash=%x", x.Data)
	case verbs.OpAtomicWriteRequest:
		fmt.Fprintf(b, " | stag=%v to=%#x data=%x", x.STag, x.TO, x.Data)
	default:
	}
}
