package verbs

import "strconv"

// Opcode is the RDMAP opcode of RFC 5040 Section 4.1, RFC 7306 Section 4 and
// draft-talpey-rdma-commit Section 3. It is five bits wide: the fifth is the
// reserved bit 0x10 of the control octet, used by the draft only.
type Opcode uint8

// The opcodes. A control octet is 0x40 | opcode (RDMAP version 1).
const (
	OpWrite               Opcode = 0x00 // RDMA Write, tagged
	OpReadRequest         Opcode = 0x01 // RDMA Read Request, queue 1
	OpReadResponse        Opcode = 0x02 // RDMA Read Response, tagged
	OpSend                Opcode = 0x03 // Send, queue 0
	OpSendInvalidate      Opcode = 0x04 // Send with Invalidate, queue 0
	OpSendSE              Opcode = 0x05 // Send with Solicited Event, queue 0
	OpSendSEInvalidate    Opcode = 0x06 // Send with Solicited Event and Invalidate, queue 0
	OpTerminate           Opcode = 0x07 // Terminate, queue 2
	OpImmediate           Opcode = 0x08 // Immediate Data (RFC 7306), queue 0
	OpImmediateSE         Opcode = 0x09 // Immediate Data with Solicited Event (RFC 7306), queue 0
	OpAtomicRequest       Opcode = 0x0a // Atomic Request (RFC 7306), queue 1
	OpAtomicResponse      Opcode = 0x0b // Atomic Response (RFC 7306), queue 3
	OpFlushRequest        Opcode = 0x0c // Flush Request (commit draft), queue 1
	OpFlushResponse       Opcode = 0x0d // Flush Response (commit draft), queue 3
	OpVerifyRequest       Opcode = 0x0e // Verify Request (commit draft), queue 1
	OpVerifyResponse      Opcode = 0x0f // Verify Response (commit draft), queue 3
	OpAtomicWriteRequest  Opcode = 0x10 // Atomic Write Request (commit draft), queue 1
	OpAtomicWriteResponse Opcode = 0x11 // Atomic Write Response (commit draft), queue 3
)

// models has, for each opcode, its name, the T bit, and the queue if it is untagged.
var models = [...]struct {
	name   string
	tagged bool
	qn     uint32
}{
	OpWrite:               {"RDMA Write", true, 0},
	OpReadRequest:         {"RDMA Read Request", false, 1},
	OpReadResponse:        {"RDMA Read Response", true, 0},
	OpSend:                {"Send", false, 0},
	OpSendInvalidate:      {"Send with Invalidate", false, 0},
	OpSendSE:              {"Send with SE", false, 0},
	OpSendSEInvalidate:    {"Send with SE and Invalidate", false, 0},
	OpTerminate:           {"Terminate", false, 2},
	OpImmediate:           {"Immediate Data", false, 0},
	OpImmediateSE:         {"Immediate Data with SE", false, 0},
	OpAtomicRequest:       {"Atomic Request", false, 1},
	OpAtomicResponse:      {"Atomic Response", false, 3},
	OpFlushRequest:        {"Flush Request", false, 1},
	OpFlushResponse:       {"Flush Response", false, 3},
	OpVerifyRequest:       {"Verify Request", false, 1},
	OpVerifyResponse:      {"Verify Response", false, 3},
	OpAtomicWriteRequest:  {"Atomic Write Request", false, 1},
	OpAtomicWriteResponse: {"Atomic Write Response", false, 3},
}

// String returns the name that the documents use, or "Opcode(0x…)" for an unknown opcode.
func (op Opcode) String() string {
	if int(op) < len(models) {
		return models[op].name
	}
	return "Opcode(0x" + strconv.FormatUint(uint64(op), 16) + ")"
}

// Tagged reports whether messages of this opcode use the tagged DDP model.
func (op Opcode) Tagged() bool { return int(op) < len(models) && models[op].tagged }

// Queue returns the DDP queue number of an untagged opcode (RFC 5040 Section 3.1, RFC 7306
// Section 10.2), and 0 for a tagged opcode.
func (op Opcode) Queue() uint32 {
	if int(op) < len(models) {
		return models[op].qn
	}
	return 0
}

// IsSend reports whether op is one of the four Sends.
func (op Opcode) IsSend() bool { return op >= OpSend && op <= OpSendSEInvalidate }

// Invalidates reports whether a message of this opcode carries an STag to invalidate.
func (op Opcode) Invalidates() bool { return op == OpSendInvalidate || op == OpSendSEInvalidate }

// Solicited reports whether a message of this opcode asks for an event at the peer.
func (op Opcode) Solicited() bool {
	return op == OpSendSE || op == OpSendSEInvalidate || op == OpImmediateSE
}

// OpCounts counts whole messages by Opcode.
type OpCounts [OpAtomicWriteResponse + 1]uint64
