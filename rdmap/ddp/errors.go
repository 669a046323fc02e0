package ddp

import (
	"errors"
	"fmt"
)

// Violation names one way to break the rules of DDP, or of the sink's memory.
type Violation uint8

// The violations. Zero is none.
const (
	// OK: no violation.
	OK Violation = iota
	// LocalCatastrophic: a ULPDU too short for its header, or a failure of our own.
	LocalCatastrophic
	// InvalidSTag: unknown, invalidated, or without the right for this operation.
	InvalidSTag
	// BaseBounds: octets outside the registered range.
	BaseBounds
	// NotAssociated: the STag belongs to another stream or protection domain.
	NotAssociated
	// TOWrap: TO plus payload passes 2^64.
	TOWrap
	// TaggedVersion: DV is not 1 in a tagged segment.
	TaggedVersion
	// InvalidQN: the stream has no such queue.
	InvalidQN
	// NoBuffer: the MSN lies beyond the posted buffers.
	NoBuffer
	// MSNRange: the MSN lies before the window, or is not the next one.
	MSNRange
	// InvalidMO: the MO is not the number of octets placed so far.
	InvalidMO
	// TooLong: the message is longer than its buffer.
	TooLong
	// UntaggedVersion: DV is not 1 in an untagged segment.
	UntaggedVersion
	// Interleaved: a segment of another message of the same kind while one is open.
	// RDMAP reports it as an unexpected opcode.
	Interleaved

	numViolations
)

// violations is the total map from violation to Terminate code and text: RFC 5041
// Section 7.2, and RFC 5040 Section 4.8 for the last row.
var violations = [numViolations]struct {
	layer, etype, code uint8
	text               string
}{
	OK:                {0, 0, 0, "no violation"},
	LocalCatastrophic: {0x1, 0x0, 0x00, "local catastrophic error"},
	InvalidSTag:       {0x1, 0x1, 0x00, "invalid STag"},
	BaseBounds:        {0x1, 0x1, 0x01, "base or bounds violation"},
	NotAssociated:     {0x1, 0x1, 0x02, "STag not associated with the stream"},
	TOWrap:            {0x1, 0x1, 0x03, "TO wrap"},
	TaggedVersion:     {0x1, 0x1, 0x04, "invalid DDP version in a tagged segment"},
	InvalidQN:         {0x1, 0x2, 0x01, "invalid QN"},
	NoBuffer:          {0x1, 0x2, 0x02, "invalid MSN, no buffer available"},
	MSNRange:          {0x1, 0x2, 0x03, "invalid MSN, range not valid"},
	InvalidMO:         {0x1, 0x2, 0x04, "invalid MO"},
	TooLong:           {0x1, 0x2, 0x05, "message too long for the buffer"},
	UntaggedVersion:   {0x1, 0x2, 0x06, "invalid DDP version in an untagged segment"},
	Interleaved:       {0x0, 0x2, 0x06, "unexpected opcode inside an open message"},
}

// String returns the name of the error in RFC 5041 Section 7.2.
func (v Violation) String() string {
	if v < numViolations {
		return violations[v].text
	}
	return fmt.Sprintf("Violation(%#02x)", uint8(v))
}

// Code returns the layer, error type and error code of the Terminate for v. OK and
// unknown values give 0x1/0x0/0x00, the local catastrophic error.
func (v Violation) Code() (layer, etype, code uint8) {
	if v == OK || v >= numViolations {
		v = LocalCatastrophic
	}
	e := &violations[v]
	return e.layer, e.etype, e.code
}

// Error is a fatal error of the inbound direction (RFC 5041 Section 7.1). No octet of the segment
// has been placed, and no more will be.
type Error struct {
	Violation          Violation
	Layer, EType, Code uint8
	// Segment is the offending header, valid if HasHeader; SegmentLen is the length of
	// its ULPDU in octets.
	Segment    Segment
	HasHeader  bool
	SegmentLen int
	// Got and Want are the values that differ, if there are two; their meaning
	// depends on the Violation (MSN, MO, octets and buffer size, version).
	Got, Want uint64
}

// Error implements error.
func (e *Error) Error() string {
	s := fmt.Sprintf("ddp: %v: got %#x, want %#x", e.Violation, e.Got, e.Want)
	if e.HasHeader {
		s += " in " + e.Segment.String()
	}
	return s
}

var (
	// ErrStalled says that the Queue has no memory for the message now. Nothing has
	// changed; pass the same segment to Header and Reserve again later.
	ErrStalled = errors.New("ddp: no memory for the message now")
	// ErrState: a method was called out of order.
	ErrState = errors.New("ddp: call out of order")
)
