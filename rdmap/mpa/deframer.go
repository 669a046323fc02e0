package mpa

import "encoding/binary"

// Deframer finds the FPDUs in the octets of one direction (RFC 5044 Sections 4 and 6). It holds no
// octets itself: the caller keeps what it has read ("staging") and passes it from the first octet
// not yet consumed. The zero value does not check CRCs. A Deframer is not safe for concurrent use.
type Deframer struct {
	// CRC makes Next check the CRC32C of every FPDU. Set it before the first octet of
	// full operation, from Negotiation.CRC.
	CRC    bool
	slow   bool // Next takes the slow path: marked is set, or err
	marked bool // ExpectMarkers was called
	err    error
	ahead  int // octets of the next FPDUs whose CRC is known to be right
	strip  stripState
}

// Next looks at b, which begins with the first octet not yet consumed. If b holds a whole FPDU, n is
// its length and ulpdu its ULPDU of 0..65535 octets, a view of b that is lent until the caller
// reuses b. If more octets are needed, n is 0 and err is nil; that costs O(1) whatever the length of
// b, and Need tells how many octets are needed.
//
// The error is an *Error with CodeCRC, or with CodeMarker if a marker does not point at the length
// field. It is final: every later call returns it, because no further FPDU may be delivered (RFC
// 5044 Section 8). No octet of a bad FPDU is returned. Any length of a ULPDU is accepted here; one
// that is too short for a header is for DDP to report.
//
// The octets of b after that FPDU must not change: their CRCs may have been checked too.
//
// With markers Next rewrites b[:n], because it closes the gaps in the ULPDU. So b must not be
// shared with anybody who relies on the raw octets. The call that returns an FPDU consumes it; to
// get it once more, see Unread.
func (d *Deframer) Next(b []byte) (ulpdu []byte, n int, err error) {
	if d.slow {
		return d.nextSlow(b)
	}
	if len(b) < HeaderLen {
		return nil, 0, nil
	}
	size := int(binary.BigEndian.Uint16(b))
	n = FPDULen(size)
	if len(b) < n {
		return nil, 0, nil
	}
	if d.CRC {
		if err := d.checkCRC(b, n); err != nil {
			return nil, 0, err
		}
	}
	end := HeaderLen + size
	return b[HeaderLen:end:end], n, nil
}

// Need returns the length of the FPDU at the start of b, markers included. While b is too short to
// tell, it returns how many octets are needed to tell.
func (d *Deframer) Need(b []byte) int {
	if d.marked {
		return d.needMarked(b)
	}
	if len(b) < HeaderLen {
		return HeaderLen
	}
	return FPDULen(int(binary.BigEndian.Uint16(b)))
}

// Peek returns the length of the ULPDU at the start of b and as much of the ULPDU as b holds, a view
// of b, before the CRC is checked. It is for a caller that reads a large payload straight into its
// final place. That caller then reads the rest of the ULPDU and the trailer, and passes the trailer
// to Finish instead of calling Next. ok is false while the length is unknown, after an error, and
// always with markers: a payload with markers in it cannot be read into place.
func (d *Deframer) Peek(b []byte) (head []byte, ulpdu int, ok bool) {
	if d.slow || len(b) < HeaderLen {
		return nil, 0, false
	}
	ulpdu = int(binary.BigEndian.Uint16(b))
	end := min(len(b), HeaderLen+ulpdu)
	return b[HeaderLen:end:end], ulpdu, true
}

// TrailerLen returns the length of pad and CRC after a ULPDU of n octets: 4..7 octets.
func TrailerLen(n int) int { return PadLen(n) + CRCLen }

// Finish checks the trailer of an FPDU that the caller has read in pieces. crc is the sum over the
// length field and the ULPDU (see UpdateCRC; any value if d.CRC is false). trailer holds the
// TrailerLen octets that follow; it is borrowed. The errors are those of Next.
func (d *Deframer) Finish(crc uint32, trailer []byte) error {
	if d.err != nil {
		return d.err
	}
	if !d.CRC {
		return nil
	}
	d.ahead = 0
	pad := len(trailer) - CRCLen
	return d.check(UpdateCRC(crc, trailer[:pad]), ReadCRC(trailer[pad:]))
}

func (d *Deframer) check(sum, field uint32) error {
	if sum == field {
		return nil
	}
	return d.fail(&Error{Code: CodeCRC, Got: field, Want: sum})
}

func (d *Deframer) fail(err error) error {
	d.err, d.slow = err, true
	return err
}

func (d *Deframer) nextSlow(b []byte) (ulpdu []byte, n int, err error) {
	if d.err != nil {
		return nil, 0, d.err
	}
	return d.nextMarked(b)
}

// EOF judges the end of the stream, with b left over. It returns nil between two FPDUs, an *Error
// with CodeClosed inside one (RFC 5044 Section 8), or the earlier error of d.
func (d *Deframer) EOF(b []byte) error {
	if d.err == nil && len(b) > 0 {
		return d.fail(&Error{Code: CodeClosed, Got: uint32(len(b)), Want: uint32(d.Need(b))})
	}
	return d.err
}
