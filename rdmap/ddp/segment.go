package ddp

import (
	"encoding/binary"
	"fmt"
)

// STag is a steering tag, which is opaque to DDP (RFC 5041 Section 4.2).
type STag uint32

// String returns the tag as 8 hexadecimal digits.
func (s STag) String() string { return fmt.Sprintf("%08x", uint32(s)) }

// Lengths of the two headers in octets (RFC 5041 Sections 4.2 and 4.3).
const (
	TaggedLen   = 14
	UntaggedLen = 18
)

// Version is the DDP version sent and required.
const Version = 1

const (
	flagTagged  = 0x80
	flagLast    = 0x40
	maskVersion = 0x03
)

// Queue numbers (RFC 5040 Section 3.1, RFC 7306 Section 10.2).
const (
	QNSend      = 0 // Sends, Immediate Data
	QNRequest   = 1 // Read, Atomic and commit requests
	QNTerminate = 2
	QNResponse  = 3 // Atomic and commit responses
	NumQueues   = 4
	FirstMSN    = 1 // of every queue, in each direction
)

// Segment is the header of a DDP segment (RFC 5041 Section 4), big-endian:
//
//	octet 0   T 0x80, L 0x40, reserved 0x3c, DV 0x03
//	octet 1   Control
//	tagged    2: STag   6: TO (8 octets)                    payload at 14
//	untagged  2: ULP    6: QN   10: MSN   14: MO            payload at 18
//
// Reserved bits are sent as 0 and not checked on receipt. Fields of the other kind are 0
// after Parse, and Append ignores them.
type Segment struct {
	Tagged  bool
	Last    bool  // L: the last segment of its message
	DV      uint8 // version as received, 0..3; Append always sends Version
	Control uint8 // RsvdULP[0:7]: the RDMAP control octet

	// Tagged: the buffer, and the offset in octets of the first payload octet.
	STag STag
	TO   uint64

	// Untagged. ULP is RsvdULP[8:39]: the STag to invalidate, or 0. QN is the queue,
	// MSN the message's number, MO the offset in octets of the payload in its message.
	ULP, QN, MSN, MO uint32
}

// HeaderLen returns the length of the header in octets: 14 if tagged, 18 if untagged.
func (s *Segment) HeaderLen() int {
	if s.Tagged {
		return TaggedLen
	}
	return UntaggedLen
}

// Append appends the header to b; the payload follows it.
func (s *Segment) Append(b []byte) []byte {
	c := byte(Version)
	if s.Last {
		c |= flagLast
	}
	if s.Tagged {
		b = append(b, c|flagTagged, s.Control)
		b = binary.BigEndian.AppendUint32(b, uint32(s.STag))
		return binary.BigEndian.AppendUint64(b, s.TO)
	}
	b = append(b, c, s.Control)
	b = binary.BigEndian.AppendUint32(b, s.ULP)
	b = binary.BigEndian.AppendUint32(b, s.QN)
	b = binary.BigEndian.AppendUint32(b, s.MSN)
	return binary.BigEndian.AppendUint32(b, s.MO)
}

// Parse reads the header at the start of b, which is a ULPDU or its beginning. ok is false if b is
// too short; then s holds only what octets 0 and 1 say, if they are there. Nothing else is checked,
// not even the version. b is borrowed.
func (s *Segment) Parse(b []byte) (ok bool) {
	*s = Segment{}
	if len(b) == 0 {
		return false
	}
	s.Tagged, s.Last, s.DV = b[0]&flagTagged != 0, b[0]&flagLast != 0, b[0]&maskVersion
	if len(b) > 1 {
		s.Control = b[1]
	}
	if len(b) < s.HeaderLen() {
		return false
	}
	if s.Tagged {
		s.STag = STag(binary.BigEndian.Uint32(b[2:]))
		s.TO = binary.BigEndian.Uint64(b[6:])
		return true
	}
	s.ULP = binary.BigEndian.Uint32(b[2:])
	s.QN = binary.BigEndian.Uint32(b[6:])
	s.MSN = binary.BigEndian.Uint32(b[10:])
	s.MO = binary.BigEndian.Uint32(b[14:])
	return true
}

// String renders the header with the field names of a packet dissector.
func (s *Segment) String() string {
	last := ""
	if s.Last {
		last = " last"
	}
	if s.Tagged {
		return fmt.Sprintf("tagged%s control=%#02x stag=%v to=%#x", last, s.Control, s.STag, s.TO)
	}
	return fmt.Sprintf("untagged%s control=%#02x ulp=%08x qn=%d msn=%d mo=%d",
		last, s.Control, s.ULP, s.QN, s.MSN, s.MO)
}

// MaxPayload returns how many payload octets a segment may carry if a ULPDU has at most mulpdu
// octets. Choice: the result is a multiple of 4, so that every segment but the last leaves TO and MO
// aligned; RFC 5041 Section 5.2 would allow up to three octets more. It is at least 4.
func MaxPayload(tagged bool, mulpdu int) int {
	n := mulpdu - UntaggedLen
	if tagged {
		n = mulpdu - TaggedLen
	}
	return max(n&^3, 4)
}
