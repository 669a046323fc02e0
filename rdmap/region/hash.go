package region

import (
	"crypto/sha256"
	"encoding/binary"
	"hash"
	"hash/crc32"

	"github.com/stag-rdma/stag/internal/crc32c"
)

// Hash is the hash algorithm that Verify uses for a registration. The upper layers agree on it; it is
// never negotiated on the wire. For a keyed hash, New is a closure over the key:
//
//	&region.Hash{Size: 32, New: func() hash.Hash { h, _ := blake2b.New256(key); return h }}
type Hash struct {
	// Size is the length of a sum in octets, 1 to 64.
	Size int
	// New starts a sum.
	New func() hash.Hash
}

// The built-in algorithms: CRC32C, 4 octets big-endian, and SHA-256.
var (
	CRC32C = &Hash{Size: crc32.Size, New: func() hash.Hash { return crc32.New(castagnoli) }}
	SHA256 = &Hash{Size: sha256.Size, New: sha256.New}
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// possible reports whether a Verify can carry the sums of h.
func (h *Hash) possible() bool {
	return h == CRC32C || h == SHA256 || h.Size >= 1 && h.Size <= 64 && h.New != nil && h.New().Size() == h.Size
}

// append appends the sum of p to dst. The built-in algorithms allocate nothing. dst is passed to no
// interface, so that it can be on the stack.
func (h *Hash) append(dst, p []byte) []byte {
	switch h {
	case CRC32C:
		return binary.BigEndian.AppendUint32(dst, crc32c.Update(0, p))
	case SHA256:
		s := sha256.Sum256(p)
		return append(dst, s[:]...)
	}
	s := h.New()
	_, _ = s.Write(p)
	return append(dst, s.Sum(nil)...)
}

// Hash returns the algorithm of the registration: Options.Hash, or CRC32C.
func (v *View) Hash() *Hash {
	if h := v.e.hash; h != nil {
		return h
	}
	return CRC32C
}

// Access returns the rights of the registration.
func (v *View) Access() Access { return v.e.access }

// AppendSum appends the sum of the view's octets to dst, Hash().Size octets: of what the medium holds if the
// memory is a ReadBacker. Its errors are those of ReadBack and Guard.
func (v *View) AppendSum(dst []byte) ([]byte, error) {
	if v.e.medium != nil {
		sum, err := v.mediumSum()
		return append(dst, sum...), err
	}
	if v.Guarded() {
		sum, err := v.guardedSum()
		return append(dst, sum...), err
	}
	return v.Hash().append(dst, v.data), nil
}

func (v *View) mediumSum() ([]byte, error) {
	s := v.Hash().New()
	err := v.e.medium.ReadBack(s, v.off, len(v.data))
	return s.Sum(nil), err
}

func (v *View) guardedSum() (sum []byte, err error) {
	h, data := v.Hash(), v.data
	if RaceDetector {
		if u, ok := v.e.guarded().(unseen); ok {
			data = make([]byte, len(data))
			_ = u.Load(data, v.off) // within it
			return h.append(nil, data), nil
		}
	}
	err = v.Guard(func() error { sum = h.append(nil, data); return nil })
	return sum, err
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
