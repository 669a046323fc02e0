package machine

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"fmt"

	"github.com/stag-rdma/stag/internal/crc32c"
)

// Version is the layout described here.
const Version = 2

// HeaderLen is the part of a header block that is not zero.
const HeaderLen = 192

var magic = [8]byte{'S', 'T', 'A', 'G', 'C', 'L', 'O', 'G'}

// Mode determines when an append is acknowledged.
type Mode uint32

// The modes of the header.
const (
	// Strict: the tail is flushed before the acknowledgment.
	Strict Mode = 1
	// WAL: storing the tail is the acknowledgment.
	WAL Mode = 2
)

// String returns "strict" or "wal".
func (m Mode) String() string {
	switch m {
	case Strict:
		return "strict"
	case WAL:
		return "wal"
	default:
		return fmt.Sprintf("Mode(%d)", uint32(m))
	}
}

// Hash names the algorithm of Verify.
type Hash uint32

// The hashes of the header.
const (
	CRC32C Hash = 1
	// NoHash: nothing can be verified; no header has it.
	NoHash Hash = 0
)

// String returns "crc32c" or "none".
func (h Hash) String() string {
	switch h {
	case NoHash:
		return "none"
	case CRC32C:
		return "crc32c"
	default:
		return fmt.Sprintf("Hash(%d)", uint32(h))
	}
}

// Header is the content of a header block.
//
//	off 0, 8 octets: magic "STAGCLOG"
//	off 8, 4: version, 2
//	off 12, 4: Mode
//	off 16, 8: Capacity of the ring, octets
//	off 24, 16: ID
//	off 40, 16: Key
//	off 56, 8: Generation; of two valid headers the one with the larger number is current
//	off 64, 4: Epoch
//	off 68, 4: Hash
//	off 72, 8: First
//	off 80, 4: Before
//	off 84, 16: Instance
//	off 100, 32: Owner
//	off 132, 56: zero
//	off 188, 4: CRC32C of octets 0 to 187
type Header struct {
	Mode       Mode
	Capacity   uint64
	ID         [16]byte // of the log, random
	Key        [16]byte // salts are derived from it; random, never sent
	Generation uint64
	Epoch      uint32   // 0: nobody has appended yet
	First      uint64   // number of the first record of Epoch, appended or not
	Before     uint32   // epoch of the record before that one; 0: none
	Instance   [16]byte // of the producer to which Epoch belongs; zeros: nobody said
	Owner      [32]byte // digest of the secret of whoever may append; zeros: nobody said
}

const (
	offVersion    = 8
	offMode       = 12
	offCapacity   = 16
	offID         = 24
	offKey        = 40
	offGeneration = 56
	offEpoch      = 64
	offHash       = 68
	offFirst      = 72
	offBefore     = 80
	offInstance   = 84
	offOwner      = 100
	offZero       = 132
	offHeaderCRC  = 188
)

func checksum(b []byte) uint32 { return crc32c.Update(0, b) }

// Append appends the HeaderLen octets of h to b.
func (h *Header) Append(b []byte) []byte {
	at := len(b)
	b = append(b, magic[:]...)
	b = binary.BigEndian.AppendUint32(b, Version)
	b = binary.BigEndian.AppendUint32(b, uint32(h.Mode))
	b = binary.BigEndian.AppendUint64(b, h.Capacity)
	b = append(b, h.ID[:]...)
	b = append(b, h.Key[:]...)
	b = binary.BigEndian.AppendUint64(b, h.Generation)
	b = binary.BigEndian.AppendUint32(b, h.Epoch)
	b = binary.BigEndian.AppendUint32(b, uint32(CRC32C))
	b = binary.BigEndian.AppendUint64(b, h.First)
	b = binary.BigEndian.AppendUint32(b, h.Before)
	b = append(b, h.Instance[:]...)
	b = append(b, h.Owner[:]...)
	b = append(b, make([]byte, offHeaderCRC-offZero)...)
	return binary.BigEndian.AppendUint32(b, checksum(b[at:]))
}

// Parse reads the header in b, the HeaderLen octets at off; it does not retain b. It checks magic
// and version first, because the rest may look different in another version.
func (h *Header) Parse(b []byte, off int) error {
	bad := func(field string, at int, kind error, got, want uint64) error {
		return &FormatError{Field: field, Off: off + at, Kind: kind, Got: got, Want: want}
	}
	u32 := func(at int) uint32 { return binary.BigEndian.Uint32(b[at:]) }
	u64 := func(at int) uint64 { return binary.BigEndian.Uint64(b[at:]) }
	if !bytes.Equal(b[:8], magic[:]) {
		return bad("magic", 0, ErrMagic, u64(0), binary.BigEndian.Uint64(magic[:]))
	}
	if v := u32(offVersion); v != Version {
		return bad("version", offVersion, ErrVersion, uint64(v), Version)
	}
	if sum := checksum(b[:offHeaderCRC]); u32(offHeaderCRC) != sum {
		return bad("header checksum", offHeaderCRC, ErrChecksum, uint64(u32(offHeaderCRC)), uint64(sum))
	}
	if v := u32(offHash); v != uint32(CRC32C) {
		return bad("hash", offHash, ErrValue, uint64(v), uint64(CRC32C))
	}
	*h = Header{
		Mode: Mode(u32(offMode)), Capacity: u64(offCapacity), Generation: u64(offGeneration),
		Epoch: u32(offEpoch), First: u64(offFirst), Before: u32(offBefore),
	}
	copy(h.ID[:], b[offID:])
	copy(h.Key[:], b[offKey:])
	copy(h.Instance[:], b[offInstance:])
	copy(h.Owner[:], b[offOwner:])
	return h.Check(off)
}

// Check returns a *FormatError for the first field with an impossible value; off is where the
// header is, or will be. So no log is created that Parse would refuse.
func (h *Header) Check(off int) error {
	switch {
	case h.Mode != Strict && h.Mode != WAL:
		return &FormatError{Field: "mode", Off: off + offMode, Kind: ErrValue, Got: uint64(h.Mode), Want: uint64(WAL)}
	case h.Before != 0 && h.Before >= h.Epoch:
		return &FormatError{Field: "epoch before", Off: off + offBefore, Kind: ErrValue, Got: uint64(h.Before), Want: uint64(h.Epoch)}
	case CheckCapacity(h.Capacity) != nil:
		return &FormatError{Field: fieldCapacity, Off: off + offCapacity, Kind: ErrSize, Got: h.Capacity, Want: MinCapacity}
	}
	return nil
}

// LastEpoch returns the epoch of the last record, if next is the number of the next one; 0 if there
// is none. The record itself may have been overwritten.
func (h *Header) LastEpoch(next uint64) uint32 {
	if next > h.First {
		return h.Epoch
	}
	return h.Before
}

// Begin makes h the header of the next epoch, which belongs to instance, and whose first record has
// number next.
func (h *Header) Begin(next uint64, instance [16]byte) {
	h.First, h.Before = next, h.LastEpoch(next)
	h.Instance = instance
	h.Epoch++
	h.Generation++
}

// Slot returns where the header of this generation belongs.
func (h *Header) Slot() int { return HeaderOff + int(h.Generation%2)*BlockSize }

// Salt returns the salt of an epoch: the first 8 octets of SHA-256(Key, ID, epoch). With one stored
// salt the records of earlier epochs in the ring could not be checked; and whoever knows one salt
// does not know the next one.
func (h *Header) Salt(epoch uint32) uint64 {
	var b [36]byte
	copy(b[:], h.Key[:])
	copy(b[16:], h.ID[:])
	binary.BigEndian.PutUint32(b[32:], epoch)
	sum := sha256.Sum256(b[:])
	return binary.BigEndian.Uint64(sum[:])
}
