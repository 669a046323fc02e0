package region

import (
	"encoding/binary"

	"github.com/stag-rdma/stag/internal/crc32c"
)

// SumLen is the length of the hash that Verify compares or returns: CRC32C, 4 octets big-endian. The upper layers agree
// on it; it is never negotiated on the wire.
const SumLen = 4

// Access returns the rights of the registration.
func (v *View) Access() Access { return v.e.access }

// AppendSum appends the hash of the view's octets to dst: of what the medium holds if the memory is a ReadBacker. Its
// errors are those of ReadBack and Guard.
func (v *View) AppendSum(dst []byte) (_ []byte, err error) {
	var sum uint32
	switch {
	case v.e.medium != nil:
		sum, err = v.mediumSum()
	case v.Guarded():
		sum, err = v.guardedSum()
	default: // here without an allocation: neither view nor sum is captured
		sum = crc32c.Update(0, v.data)
	}
	return binary.BigEndian.AppendUint32(dst, sum), err
}

func (v *View) mediumSum() (uint32, error) {
	var s summer
	err := v.e.medium.ReadBack(&s, v.off, len(v.data))
	return uint32(s), err
}

func (v *View) guardedSum() (sum uint32, err error) {
	data := v.data
	if RaceDetector {
		if u, ok := v.e.guarded().(unseen); ok {
			data = make([]byte, len(data))
			_ = u.Load(data, v.off) // within it
			return crc32c.Update(0, data), nil
		}
	}
	err = v.Guard(func() error { sum = crc32c.Update(0, data); return nil })
	return sum, err
}

// summer sums what is written to it.
type summer uint32

func (s *summer) Write(p []byte) (int, error) {
	*s = summer(crc32c.Update(uint32(*s), p))
	return len(p), nil
}

// Guessed counts a failed comparison by a peer of t without the right to read. All failed comparisons over
// one Memory by one principal count together, whatever the registration or domain; see
// [Table.SetPrincipal].
func (v *View) Guessed(t *Table) { v.e.fate.add(t.principal()) }

// MayGuess reports whether a comparison is permitted now to the peer of t: after 16 failed ones of its
// principal, one more is permitted each second. The wrong guesses of one take nothing from another.
func (v *View) MayGuess(t *Table) bool { return !v.e.fate.full(t.principal()) }

func (t *Table) principal() any {
	if t.name != "" {
		return t.name
	}
	return t
}
