package mpa

import (
	"errors"
	"fmt"
)

// Layer and EType are the first two fields of every Terminate that MPA causes: layer 2 (LLP), error
// type 0 (MPA); see RFC 5044 Section 8 and RFC 6580 Section 3.3.
const (
	Layer = 0x2
	EType = 0x0
)

// Code is an MPA error code (RFC 5044 Section 8, RFC 6581 Section 8).
type Code uint8

// The registered codes.
const (
	// CodeClosed: the connection ended inside an FPDU or a startup frame. No
	// Terminate can be sent.
	CodeClosed Code = 0x01
	// CodeCRC: the CRC32C of an FPDU does not match.
	CodeCRC Code = 0x02
	// CodeMarker: the CRC is right, but a marker and ULPDU_Length disagree.
	CodeMarker Code = 0x03
	// CodeStartup: bad Request or Reply. Reported locally, never sent.
	CodeStartup Code = 0x04
	// CodeLocal: enhanced setup, local catastrophic error.
	CodeLocal Code = 0x05
	// CodeIRD: enhanced setup, insufficient IRD for the peer's ORD.
	CodeIRD Code = 0x06
	// CodeRTR: enhanced setup, no RTR option in common.
	CodeRTR Code = 0x07
)

// String returns the meaning of the code, or "Code(0x…)" for an unknown one.
func (c Code) String() string {
	switch c {
	case CodeClosed:
		return "connection closed"
	case CodeCRC:
		return "CRC error"
	case CodeMarker:
		return "marker and ULPDU length disagree"
	case CodeStartup:
		return "invalid Request or Reply"
	case CodeLocal:
		return "local catastrophic error"
	case CodeIRD:
		return "insufficient IRD"
	case CodeRTR:
		return "no matching RTR option"
	}
	return fmt.Sprintf("Code(%#02x)", uint8(c))
}

// Error is a fatal violation of MPA by the peer, or the end of the connection inside a frame.
// Terminate reports whether the code may be sent to the peer.
type Error struct {
	Code Code
	// Got and Want are the values that differ: CRCs (CodeCRC), octets at hand and
	// octets needed (CodeClosed), read depths (CodeIRD), RTR options (CodeRTR).
	Got, Want uint32
}

// Error implements error.
func (e *Error) Error() string {
	return fmt.Sprintf("mpa: %v: got %#x, want %#x", e.Code, e.Got, e.Want)
}

// Terminate reports whether a Terminate message with this code is sent. It is, unless the connection
// is gone or never reached full operation.
func (e *Error) Terminate() bool { return e.Code != CodeClosed && e.Code != CodeStartup }

// Causes of a FormatError, for errors.Is.
var (
	// ErrKey: the 16 octets of the key are not those of the expected frame.
	ErrKey = errors.New("wrong key")
	// ErrRole: the key is that of the other frame. Both sides are initiators, or both responders.
	ErrRole = errors.New("key of the opposite frame")
	// ErrRevision: the revision is neither 1 nor 2, or is above the one we sent or accept.
	ErrRevision = errors.New("revision not supported")
	// ErrPrivateData: private data longer than the format allows.
	ErrPrivateData = errors.New("private data too long")
	// ErrEnhanced: S=1 without room for the enhanced word, or S differs from the
	// Request's.
	ErrEnhanced = errors.New("enhanced data missing or not requested")
	// ErrTrailing: octets follow the frame, although the peer may not send any yet.
	ErrTrailing = errors.New("octets after the frame")
	// ErrMarkers: the peer demands markers, which this side does not send.
	ErrMarkers = errors.New("markers not supported")
	// ErrDepth: IRD or ORD outside its 14 bits, or not usable in this role.
	ErrDepth = errors.New("read depth out of range")
	// ErrState: a method was called out of order.
	ErrState = errors.New("mpa: call out of order")
)

// FormatError reports a malformed startup frame. The connection is closed without an answer (RFC
// 5044 Section 7.1.2). It also reports a Config or a frame of our own that cannot be encoded.
type FormatError struct {
	frame string // "request" or "reply"
	Field string // the field's name in RFC 5044 Section 7.1.1 or RFC 6581 Section 6
	Off   int    // its offset in the frame, octets
	err   error  // one of the Err values above
}

// Error implements error.
func (e *FormatError) Error() string {
	return fmt.Sprintf("mpa: %s: %s at octet %d: %v", e.frame, e.Field, e.Off, e.err)
}

// Unwrap returns the cause, one of the Err values above.
func (e *FormatError) Unwrap() error { return e.err }

// RejectError says that the responder answered with R=1. Reply.PrivateData is a copy; Reply.Word is
// valid only if Reply.Enhanced is set.
type RejectError struct{ Reply Reply }

// Error implements error.
func (e *RejectError) Error() string {
	return fmt.Sprintf("mpa: connection rejected by the peer (%d octets of private data)", len(e.Reply.PrivateData))
}

// RefuseError says that a Request is well formed but that the responder's Config refuses it. The
// responder answers with Reject and closes the connection.
type RefuseError struct{ err error }

// Error implements error.
func (e *RefuseError) Error() string { return "mpa: request refused: " + e.err.Error() }

// Unwrap returns the cause.
func (e *RefuseError) Unwrap() error { return e.err }
