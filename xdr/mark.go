package xdr

// MaxFragment is the largest fragment a record mark can announce, in octets.
const MaxFragment = 1<<31 - 1

// lastFragment is the top bit of a record mark.
const lastFragment = 1 << 31

// AppendRecordMark appends the mark of a fragment of n octets: 4 octets, the
// top bit set on the last fragment of a record, 31 bits of length (RFC 5531
// Section 11). The octets of the fragment follow it. n is 0 to MaxFragment;
// any other n is a fault of the caller, and panics.
func AppendRecordMark(b []byte, n int, last bool) []byte {
	if uint(n) > MaxFragment {
		panic("xdr: fragment length out of range")
	}
	v := uint32(n)
	if last {
		v |= lastFragment
	}
	return AppendUint32(b, v)
}

// parseMark splits a record mark; b holds at least 4 octets.
func parseMark(b []byte) (n int, last bool) {
	d := NewDecoder(b)
	v := d.Uint32()
	return int(v &^ lastFragment), v&lastFragment != 0
}
