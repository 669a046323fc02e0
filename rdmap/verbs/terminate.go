package verbs

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/stag-rdma/stag/rdmap/ddp"
)

// TermCode is the layer, error type and error code of a Terminate (RFC 5040
// Section 4.8, RFC 6580 Section 3). Layer and EType are four bits wide.
type TermCode struct{ Layer, EType, Code uint8 }

// Layers of a TermCode.
const (
	LayerRDMAP uint8 = 0
	LayerDDP   uint8 = 1
	LayerMPA   uint8 = 2
)

// String returns "0x1/0x2/0x05" and, for a registered code, its name.
func (t TermCode) String() string {
	s := fmt.Sprintf("0x%x/0x%x/0x%02x", t.Layer, t.EType, t.Code)
	if n := t.name(); n != "" {
		s += " " + n
	}
	return s
}

// Registered reports whether the documents assign t a meaning.
func (t TermCode) Registered() bool { return t.name() != "" }

var termNames = map[TermCode]string{
	{0, 1, 0x00}: "invalid STag",
	{0, 1, 0x01}: "base or bounds violation",
	{0, 1, 0x02}: "access rights violation",
	{0, 1, 0x03}: "STag not associated with stream",
	{0, 1, 0x04}: "TO wrap",
	{0, 1, 0x09}: "STag cannot be invalidated",
	{0, 1, 0xff}: "remote protection, unspecified",
	{0, 2, 0x05}: "invalid RDMAP version",
	{0, 2, 0x06}: "unexpected opcode",
	{0, 2, 0x07}: "catastrophic, localized to stream",
	{0, 2, 0x08}: "catastrophic, global",
	{0, 2, 0x09}: "STag cannot be invalidated",
	{0, 2, 0xff}: "remote operation, unspecified",
	{1, 0, 0x00}: "DDP local catastrophic",
	{1, 1, 0x00}: "tagged, invalid STag",
	{1, 1, 0x01}: "tagged, base or bounds violation",
	{1, 1, 0x02}: "tagged, STag not associated with stream",
	{1, 1, 0x03}: "tagged, TO wrap",
	{1, 1, 0x04}: "tagged, invalid DDP version",
	{1, 2, 0x01}: "untagged, invalid QN",
	{1, 2, 0x02}: "untagged, no buffer available",
	{1, 2, 0x03}: "untagged, invalid MSN",
	{1, 2, 0x04}: "untagged, invalid MO",
	{1, 2, 0x05}: "untagged, message too long",
	{1, 2, 0x06}: "untagged, invalid DDP version",
	{2, 0, 0x01}: "TCP connection lost",
	{2, 0, 0x02}: "CRC mismatch",
	{2, 0, 0x03}: "marker and ULPDU_Length disagree",
	{2, 0, 0x04}: "bad MPA Request or Reply",
	{2, 0, 0x05}: "enhanced setup, local catastrophic",
	{2, 0, 0x06}: "insufficient IRD resources",
	{2, 0, 0x07}: "no matching RTR option",
}

func (t TermCode) name() string {
	switch {
	case t.Layer == LayerRDMAP && t.EType == 0:
		return "local catastrophic" // any code, RFC 5040 Section 4.8
	case t.Layer == LayerDDP && t.EType == 3:
		return "reserved for the LLP" // any code, RFC 5041 Section 7.2
	}
	return termNames[t]
}

// Terminate is the payload of a Terminate message (RFC 5040 Section 4.8):
//
//	off 0, 4 octets: layer(4) etype(4) code(8) M(1) D(1) R(1) reserved(13)
//	off 4, 2 octets: DDP segment length, when M or D
//	then 14 or 18 octets: the terminated DDP header, when D (its T bit says which)
//	then 28 octets: the terminated Read Request header, when R
//
// Absent parts are left out, not filled with zeros. The reserved bits are sent as zero and
// ignored on receipt.
//
// SegLen is the ULPDU length of the offending segment, headers included. DDP, Read and
// Raw alias the parsed octets; the engine's own errors hold copies.
type Terminate struct {
	Code      TermCode
	HasLength bool   // M
	SegLen    uint16 // valid with HasLength or DDP
	DDP       []byte // terminated DDP header; nil: D=0
	Read      []byte // terminated Read Request header; nil: R=0
	Raw       []byte // as received; nil if this side built it
}

const (
	readRequestLen = 28 // its RDMAP header, RFC 5040 Section 4.4

	termM = 1 << 15
	termD = 1 << 14
	termR = 1 << 13
)

// Size returns the number of octets Append appends: 4, 6, 20, 24 or 52.
func (t *Terminate) Size() int {
	n := 4
	if t.HasLength || t.DDP != nil {
		n += 2
	}
	return n + len(t.DDP) + len(t.Read)
}

// Append appends the payload of t, Size octets, to b. It borrows the slices of t.
func (t *Terminate) Append(b []byte) []byte {
	w := uint32(t.Code.Layer&15)<<28 | uint32(t.Code.EType&15)<<24 | uint32(t.Code.Code)<<16
	if t.HasLength || t.DDP != nil {
		w |= termM
	}
	if t.DDP != nil {
		w |= termD
	}
	if t.Read != nil {
		w |= termR
	}
	b = binary.BigEndian.AppendUint32(b, w)
	if w&(termM|termD) != 0 {
		b = binary.BigEndian.AppendUint16(b, t.SegLen)
	}
	b = append(b, t.DDP...)
	return append(b, t.Read...)
}

// ErrTerminateShort: a Terminate of fewer than four octets, or one shorter than
// its flags announce.
var ErrTerminateShort = errors.New("rdmap: Terminate shorter than its flags announce")

// ParseTerminate parses the payload of a Terminate message. The result aliases b. Octets after
// the announced parts are ignored. If b is too short, the error wraps ErrTerminateShort, and the
// result holds the parts that are complete.
//
// Linux siw lays the control word out as C bit-fields: on little-endian hosts
// layer and error type swap places, and M, D, R are the low three bits of the
// third octet. A part counts as announced if either position announces it;
// see Swapped for the other reading of the first octet. An invalid Terminate is
// a local error only (RFC 5040 Section 7).
func ParseTerminate(b []byte) (Terminate, error) {
	if len(b) < 4 {
		return Terminate{}, fmt.Errorf("%w: %d octets", ErrTerminateShort, len(b))
	}
	w := binary.BigEndian.Uint32(b)
	t := Terminate{
		Code: TermCode{Layer: uint8(w >> 28), EType: uint8(w>>24) & 15, Code: uint8(w >> 16)},
		Raw:  b,
	}
	// Anywhere but in siw these bits are reserved, so they count only if every part fits.
	if s := t; s.parts(w|uint32(b[2]&1)<<15|uint32(b[2]&2)<<13|uint32(b[2]&4)<<11) == nil {
		return s, nil
	}
	err := t.parts(w)
	return t, err
}

// parts parses what the flags of w announce.
func (t *Terminate) parts(w uint32) error {
	rest := t.Raw[4:]
	if w&(termM|termD) == 0 {
		return nil
	}
	if len(rest) < 2 {
		return ErrTerminateShort
	}
	t.HasLength, t.SegLen, rest = true, binary.BigEndian.Uint16(rest), rest[2:]
	if w&termD == 0 {
		return nil
	}
	n := ddp.UntaggedLen
	if len(rest) > 0 && rest[0]&0x80 != 0 {
		n = ddp.TaggedLen
	}
	if len(rest) < n {
		return ErrTerminateShort
	}
	t.DDP, rest = rest[:n:n], rest[n:]
	if w&termR == 0 {
		return nil
	}
	if len(rest) < readRequestLen {
		return ErrTerminateShort
	}
	t.Read = rest[:readRequestLen:readRequestLen]
	return nil
}

// Swapped returns the code with layer and error type exchanged, as siw lays out the first octet.
func (t *Terminate) Swapped() TermCode {
	return TermCode{Layer: t.Code.EType, EType: t.Code.Layer, Code: t.Code.Code}
}

// String names the code, in both readings if siw may have sent it.
func (t *Terminate) String() string {
	s := t.Code.String()
	if t.Raw != nil && t.siw() && t.Swapped() != t.Code {
		s += " (or, as Linux siw lays it out, " + t.Swapped().String() + ")"
	}
	return s
}

// siw reports whether the octets may have siw's layout: flags in the low bits, or
// none at all and a code that is registered when swapped.
func (t *Terminate) siw() bool {
	return t.Raw[2]&7 != 0 || t.Raw[2]&0xe0 == 0 && t.Swapped().Registered()
}
