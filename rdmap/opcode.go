package rdmap

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

// opInfo is one row of the opcode table: the T bit, the queue number and the payload length that a
// message of this opcode must have, and the extension that it belongs to.
type opInfo struct {
	name    string
	ext     Extensions
	tagged  bool
	qn      uint32 // untagged only
	minSize int    // payload octets; -1: any
	maxSize int    // payload octets; -1: bounded by the buffer alone
}

var opTable = [...]opInfo{
	OpWrite:               {"RDMA Write", extBase, true, 0, -1, -1},
	OpReadRequest:         {"RDMA Read Request", extBase, false, 1, 28, 28},
	OpReadResponse:        {"RDMA Read Response", extBase, true, 0, -1, -1},
	OpSend:                {"Send", extBase, false, 0, -1, -1},
	OpSendInvalidate:      {"Send with Invalidate", extBase, false, 0, -1, -1},
	OpSendSE:              {"Send with SE", extBase, false, 0, -1, -1},
	OpSendSEInvalidate:    {"Send with SE and Invalidate", extBase, false, 0, -1, -1},
	OpTerminate:           {"Terminate", extBase, false, 2, 4, -1},
	OpImmediate:           {"Immediate Data", Ext7306, false, 0, 8, 8},
	OpImmediateSE:         {"Immediate Data with SE", Ext7306, false, 0, 8, 8},
	OpAtomicRequest:       {"Atomic Request", Ext7306, false, 1, 52, 52},
	OpAtomicResponse:      {"Atomic Response", Ext7306, false, 3, 12, 12},
	OpFlushRequest:        {"Flush Request", ExtCommit, false, 1, 20, 20},
	OpFlushResponse:       {"Flush Response", ExtCommit, false, 3, 0, 0},
	OpVerifyRequest:       {"Verify Request", ExtCommit, false, 1, 16, 16 + 64},
	OpVerifyResponse:      {"Verify Response", ExtCommit, false, 3, 1, 64},
	OpAtomicWriteRequest:  {"Atomic Write Request", ExtCommit, false, 1, 24, 24},
	OpAtomicWriteResponse: {"Atomic Write Response", ExtCommit, false, 3, 0, 0},
}

// String returns the name that the documents use, or "Opcode(0x…)" for an unknown opcode.
func (op Opcode) String() string {
	if int(op) < len(opTable) {
		return opTable[op].name
	}
	return "Opcode(0x" + strconv.FormatUint(uint64(op), 16) + ")"
}

// Tagged reports whether messages of this opcode use the tagged DDP model.
func (op Opcode) Tagged() bool { return int(op) < len(opTable) && opTable[op].tagged }

// Queue returns the DDP queue number of an untagged opcode (RFC 5040 Section 3.1, RFC 7306
// Section 10.2), and 0 for a tagged opcode.
func (op Opcode) Queue() uint32 {
	if int(op) < len(opTable) {
		return opTable[op].qn
	}
	return 0
}

// IsSend reports whether op is one of the four Sends.
func (op Opcode) IsSend() bool { return op >= OpSend && op <= OpSendSEInvalidate }

// isMessage reports whether op is delivered to the upper layer: a Send or Immediate
// Data.
func (op Opcode) isMessage() bool { return op.IsSend() || op == OpImmediate || op == OpImmediateSE }

// asks reports whether op is a request, which goes to queue 1 and gets a response.
func (op Opcode) asks() bool { return 1<<op&requestOps != 0 }

const requestOps = 1<<OpReadRequest | 1<<OpAtomicRequest | 1<<OpFlushRequest | 1<<OpVerifyRequest |
	1<<OpAtomicWriteRequest

// Invalidates reports whether a message of this opcode carries an STag to invalidate.
func (op Opcode) Invalidates() bool { return op == OpSendInvalidate || op == OpSendSEInvalidate }

// Solicited reports whether a message of this opcode asks for an event at the peer.
func (op Opcode) Solicited() bool {
	return op == OpSendSE || op == OpSendSEInvalidate || op == OpImmediateSE
}
