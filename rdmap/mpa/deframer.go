package mpa

import "encoding/binary"

// Deframer finds the FPDUs in the octets of one direction, RFC 5044 Section 4 and 6.
// It holds no octets itself: the caller keeps what it has read ("staging") and shows
// it from the first octet not yet consumed. The zero value does not check CRCs. Not
// safe for concurrent use.
type Deframer struct {
	// CRC makes Next check the CRC32C of every FPDU. Set it before the first octet of
	// full operation, from Negotiation.CRC.
	CRC    bool
	slow   bool // Next has more to do than look: marked, or err is set
	marked bool // ExpectMarkers
	err    error
	ahead  int // octets of the next FPDUs whose CRC has been found right already
	strip  stripState
}

// Next looks at b, which begins with the first octet not consumed yet. If b holds
// a whole FPDU, n is its length and ulpdu its ULPDU of 0..65535 octets: a view of b
// that lends until the caller reuses b. If more octets are needed, n is 0 and err is
// nil; that answer costs O(1) whatever the length of b, and Need says how many
// octets it takes.
//
// The error is an *Error with CodeCRC, or CodeMarker when a marker does not point at
// the length field; it is final, every later call returns it (RFC 5044 Section 8: no
// further FPDU is delivered). No octet of a bad FPDU is returned.
// The length of a ULPDU is not judged here, apart from what its 16 bits can say: too
// short for a header is for DDP to report.
//
// What b holds behind that FPDU must not change: its CRC may have been checked as well.
//
// With markers Next rewrites b[:n], where it moves the ULPDU together, so that b must
// not be shared with anybody who relies on the raw octets. An FPDU is taken by the call
// that returns it; to be shown it again, see Unread.
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

// Need returns how many octets the FPDU at the start of b takes in all, markers
// included; while that is unknown, how many it takes to know.
func (d *Deframer) Need(b []byte) int {
	if d.marked {
		return d.needMarked(b)
	}
	if len(b) < HeaderLen {
		return HeaderLen
	}
	return FPDULen(int(binary.BigEndian.Uint16(b)))
}

// Peek returns the length of the ULPDU at the start of b and as much of it as b
// holds (a view), before its CRC is checked: for a caller that reads a large payload
// straight into its final place. ok is false while the length is unknown, after an
// error, and always with markers: a payload with markers in it cannot be read into place.
// That caller then reads the rest of the ULPDU and the trailer, and gives the
// trailer to Finish instead of calling Next.
func (d *Deframer) Peek(b []byte) (head []byte, ulpdu int, ok bool) {
	if d.slow || len(b) < HeaderLen {
		return nil, 0, false
	}
	ulpdu = int(binary.BigEndian.Uint16(b))
	end := min(len(b), HeaderLen+ulpdu)
	return b[HeaderLen:end:end], ulpdu, true
}

// TrailerLen returns the length of pad and CRC behind a ULPDU of n octets, 4..7.
func TrailerLen(n int) int { return PadLen(n) + CRCLen }

// Finish checks the trailer of an FPDU that the caller has read by pieces. crc is the
// sum over the length field and the ULPDU (UpdateCRC; any value when d.CRC is
// false), trailer the TrailerLen octets behind it. Errors as with Next.
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

// EOF judges the end of the stream with b left over: nil between two FPDUs, an
// *Error with CodeClosed inside one (RFC 5044 Section 8), or the error of before.
func (d *Deframer) EOF(b []byte) error {
	if d.err == nil && len(b) > 0 {
		return d.fail(&Error{Code: CodeClosed, Got: uint32(len(b)), Want: uint32(d.Need(b))})
	}
	return d.err
}
