package engine

import (
	"errors"
	"fmt"

	"github.com/stag-rdma/stag/rdmap/ddp"
	"github.com/stag-rdma/stag/rdmap/mpa"
	"github.com/stag-rdma/stag/rdmap/verbs"
)

// violation names one way for a peer to break RDMAP's own rules. The packages ddp and mpa name
// violations of their rules; protocolError maps those.
type violation uint8

const (
	vioNone          violation = iota
	vioSTag                    // request: source or target STag invalid
	vioBounds                  // request: outside the region
	vioAccess                  // request: a right is missing
	vioNotAssociated           // request: STag of another stream
	vioWrap                    // request: TO plus length passes 2^64
	vioInvalidate              // Send with Invalidate: STag cannot be invalidated
	vioVersion                 // RV is not 1
	vioOpcode                  // opcode unknown, not enabled, or wrong for T and QN
	vioLength                  // message length does not fit the opcode
	vioNoRead                  // Read Response: none due, or the wrong STag
	vioReadBounds              // Read Response: outside the requested range
	vioReadShort               // Read Response: ends before the requested length
	vioAtomicOp                // Atomic Request: operation unknown or not enabled
	vioMisaligned              // request: word at an address that is not a multiple of 8
	vioMemory                  // request: the memory has failed
	vioAnswer                  // response on queue 3: not what is due
	vioAnswerID                // Atomic Response: identifier of another request
	vioFlush                   // Flush: the memory is not persistent, or has failed
	vioHashLength              // Verify: hash length differs from the region's
	vioMismatch                // Verify: the hashes differ
	vioWordLength              // Atomic Write: length is not 8
	vioWrongHash               // Verify Response: not the hash that the peer was to compare with
	numViolations              // how many there are
)

// violations is the total map from violation to Terminate code.
var violations = [numViolations]struct {
	Code    verbs.TermCode
	Section string
	Text    string
}{
	vioNone:          {termCode(0, 0, 0), "RFC 5040 Section 4.8", "local catastrophic error"},
	vioSTag:          {termCode(0, 1, 0x00), "RFC 5040 Section 7.2", "invalid STag in a request"},
	vioBounds:        {termCode(0, 1, 0x01), "RFC 5040 Section 7.2", "request outside the region's bounds"},
	vioAccess:        {termCode(0, 1, 0x02), "RFC 5040 Section 7.2", "request without the access right"},
	vioNotAssociated: {termCode(0, 1, 0x03), "RFC 5040 Section 7.2", "STag in a request not associated with the stream"},
	vioWrap:          {termCode(0, 1, 0x04), "RFC 5040 Section 7.2", "TO of a request wraps"},
	vioInvalidate:    {termCode(0, 1, 0x09), "RFC 5040 Section 5.3", "STag cannot be invalidated"},
	vioVersion:       {termCode(0, 2, 0x05), "RFC 5040 Section 4.1", "invalid RDMAP version"},
	vioOpcode:        {termCode(0, 2, 0x06), "RFC 5040 Section 4.1", "unexpected opcode"},
	vioLength:        {termCode(0, 2, 0x07), "RFC 5040 Section 4", "message length does not fit the opcode"},
	vioNoRead:        {termCode(1, 1, 0x00), "RFC 5040 Section 4.5", "Read Response that answers no Read Request"},
	vioReadBounds:    {termCode(1, 1, 0x01), "RFC 5040 Section 4.5", "Read Response outside the requested range"},
	vioReadShort:     {termCode(0, 2, 0xff), "RFC 5040 Section 4.5", "Read Response shorter than requested"},
	vioAtomicOp:      {termCode(0, 2, 0x06), "RFC 7306 Section 5.2", "atomic operation not supported"},
	vioMisaligned:    {termCode(0, 2, 0x07), "RFC 7306 Section 8.2", "atomic operation on a misaligned word"},
	vioMemory:        {termCode(0, 2, 0x07), "RFC 5040 Section 4.8", "memory named by a request has failed"},
	vioFlush:         {termCode(0, 2, 0x07), "draft-talpey-rdma-commit Section 3.1", "flush failed"},
	vioHashLength:    {termCode(0, 2, 0x07), "draft-talpey-rdma-commit Section 3.2", "hash length differs from the region's"},
	vioMismatch:      {termCode(0, 2, 0x07), "draft-talpey-rdma-commit Section 3.2", "verification failed"},
	vioWordLength:    {termCode(0, 2, 0x07), "draft-talpey-rdma-commit Section 3.3", "atomic write not of 8 octets"},
	vioWrongHash:     {termCode(0, 2, 0xff), "draft-talpey-rdma-commit Section 3.2", "Verify Response with another hash than was compared"},
	vioAnswer:        {termCode(0, 2, 0xff), "RFC 7306 Section 5", "response on queue 3 that answers no request"},
	vioAnswerID:      {termCode(0, 2, 0xff), "RFC 7306 Section 5", "Atomic Response with the wrong identifier"},
}

// termCode returns a code by its parts.
func termCode(layer, etype, code uint8) verbs.TermCode {
	return verbs.TermCode{Layer: layer, EType: etype, Code: code}
}

// protection reports whether v is a remote protection error.
func (v violation) protection() bool {
	c := violations[v].Code
	return c.Layer == verbs.LayerRDMAP && c.EType == 1
}

// asError returns the ProtocolError for v, without headers.
func (v violation) asError(cause error) *verbs.ProtocolError {
	row := &violations[v]
	return &verbs.ProtocolError{
		Code: row.Code, Section: row.Section, Msg: row.Text, Err: cause,
		Terminate: &verbs.Terminate{Code: row.Code},
	}
}

// refuse returns the ProtocolError for v found in the ULPDU u, whose header is hdr octets long.
// The Terminate quotes the length of u and copies its header.
func (v violation) refuse(u []byte, hdr int, cause error) *verbs.ProtocolError {
	e := v.asError(cause)
	quote(e.Terminate, u, hdr)
	return e
}

// quote copies the length and the header of the segment u into t (M=D=1).
func quote(t *verbs.Terminate, u []byte, hdr int) {
	t.HasLength, t.SegLen = true, uint16(len(u))
	t.DDP = append([]byte(nil), u[:hdr]...)
}

// cloned returns t with its slices copied.
func cloned(t verbs.Terminate) verbs.Terminate {
	t.DDP = append([]byte(nil), t.DDP...)
	t.Read = append([]byte(nil), t.Read...)
	t.Raw = append([]byte(nil), t.Raw...)
	return t
}

// protocolError returns the ProtocolError for an error from a lower layer. u is
// the ULPDU at fault, nil if none.
func protocolError(err error, u []byte) *verbs.ProtocolError {
	if e, ok := errors.AsType[*ddp.Error](err); ok {
		return ddpError(e, u)
	}
	if e, ok := errors.AsType[*mpa.Error](err); ok { // no header is quoted: the octets cannot be trusted
		code := termCode(mpa.Layer, mpa.EType, uint8(e.Code))
		p := &verbs.ProtocolError{Code: code, Section: "RFC 5044 Section 8", Msg: e.Code.String(), Err: err}
		if e.Terminate() {
			p.Terminate = &verbs.Terminate{Code: code}
		}
		return p
	}
	return vioNone.asError(err)
}

func ddpError(e *ddp.Error, u []byte) *verbs.ProtocolError {
	code := termCode(e.Layer, e.EType, e.Code)
	p := &verbs.ProtocolError{
		Code: code, Section: "RFC 5041 Section 7.1", Msg: e.Violation.String(), Err: e,
		Terminate: &verbs.Terminate{Code: code},
	}
	if e.HasHeader { // RFC 5040 Section 4.8: else M and D are 0
		quote(p.Terminate, u, e.Segment.HeaderLen())
	}
	return p
}

func wantGot(want, got any) error { return fmt.Errorf("got %v, want %v", got, want) }
