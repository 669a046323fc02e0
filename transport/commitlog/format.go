package commitlog

// This file, recovery.go, consumer.go and sender.go hold the format and the rules of the log: where things are, what recovery
// trusts, in which order the consumer makes things durable, what the producer may write where, and when an append is
// acknowledged. Events go in, operations come out: memory is touched only through source, no goroutine is started, no
// clock is read. So the crash models can run them with every crash there is. The owner of a machine calls it from one
// goroutine at a time. conformance/layering_test.go sees to it that they need no other file.
//
// All numbers are big-endian. Positions count ring octets and never wrap; position p is at ringOff
// + p mod capacity. docs/commitlog-format.md describes the format in prose.

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"github.com/stag-rdma/stag/internal/crc32c"
)

// Where things are, in octets from the start of the memory.
const (
	blockSize = 4096
	headerOff = 0             // header A; header B is one block after it
	tailOff   = 2 * blockSize // the tail word
	headOff   = 3 * blockSize // head slot A and the published head; slot B is one block after it
	ringOff   = 5 * blockSize

	// headSlotGap is the distance between the two head slots, so that no write of one block harms both.
	headSlotGap = blockSize
	// publishedOff is where a producer reads the head. Recovery does not look at it.
	publishedOff = headOff + 1024

	// align is the multiple to which records are padded, and of which every position is a multiple.
	align = 64
	// minCapacity leaves room for the smallest record and a filler.
	minCapacity = 4 * align
	// maxPayload is the largest payload of a record in octets, whatever the capacity.
	maxPayload = 1 << 30
)

// checkCapacity returns a *FormatError unless a ring can have n octets.
func checkCapacity(n uint64) error {
	if n < minCapacity || n%align != 0 || n > math.MaxInt64/2 {
		return &FormatError{Field: fieldCapacity, Off: headerOff + offCapacity, Kind: ErrSize, Got: n, Want: minCapacity}
	}
	return nil
}

// PayloadLimit returns the largest payload in octets for a ring of capacity octets. A record takes
// at most half the ring, so that it fits after any filler when the ring is empty.
func PayloadLimit(capacity uint64) int {
	half := capacity / 2 / align * align
	return int(min(half-recordHeaderLen, maxPayload))
}

// ringAt returns where position p is, in octets from the start of the ring.
func ringAt(p, capacity uint64) uint64 { return p % capacity }

// toEnd returns the number of octets from position p to the end of the ring.
func toEnd(p, capacity uint64) uint64 { return capacity - p%capacity }

// recordSize returns the octets that a payload of n octets takes in the ring.
func recordSize(n int) uint64 { return (recordHeaderLen + uint64(n) + align - 1) / align * align }

// version is the layout described here.
const version = 2

// headerLen is the part of a header block that is not zero.
const headerLen = 192

var magic = [8]byte{'S', 'T', 'A', 'G', 'C', 'L', 'O', 'G'}

// Mode determines when an append is acknowledged.
type Mode uint32

// The modes.
const (
	// Strict also flushes the tail before it acknowledges: there is no moment in which damage to the last records
	// is taken for their end.
	Strict Mode = 1
	// WAL acknowledges with the store of the tail, after the flush of the record: one disk flush
	// per group of appends. Recovery rolls forward over the records after the durable tail.
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

// The hashes.
const (
	CRC32C Hash = 1
	// NoHash, in an Answer: the medium of the log cannot be read back, so nothing can be verified.
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

// header is the content of a header block.
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
type header struct {
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

// Append appends the headerLen octets of h to b.
func (h *header) Append(b []byte) []byte {
	at := len(b)
	b = append(b, magic[:]...)
	b = binary.BigEndian.AppendUint32(b, version)
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

// Parse reads the header in b, the headerLen octets at off; it does not retain b. It checks magic
// and version first, because the rest may look different in another version.
func (h *header) Parse(b []byte, off int) error {
	bad := func(field string, at int, kind error, got, want uint64) error {
		return &FormatError{Field: field, Off: off + at, Kind: kind, Got: got, Want: want}
	}
	u32 := func(at int) uint32 { return binary.BigEndian.Uint32(b[at:]) }
	u64 := func(at int) uint64 { return binary.BigEndian.Uint64(b[at:]) }
	if !bytes.Equal(b[:8], magic[:]) {
		return bad("magic", 0, ErrMagic, u64(0), binary.BigEndian.Uint64(magic[:]))
	}
	if v := u32(offVersion); v != version {
		return bad("version", offVersion, ErrVersion, uint64(v), version)
	}
	if sum := checksum(b[:offHeaderCRC]); u32(offHeaderCRC) != sum {
		return bad("header checksum", offHeaderCRC, ErrChecksum, uint64(u32(offHeaderCRC)), uint64(sum))
	}
	if v := u32(offHash); v != uint32(CRC32C) {
		return bad("hash", offHash, ErrValue, uint64(v), uint64(CRC32C))
	}
	*h = header{
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
func (h *header) Check(off int) error {
	switch {
	case h.Mode != Strict && h.Mode != WAL:
		return &FormatError{Field: "mode", Off: off + offMode, Kind: ErrValue, Got: uint64(h.Mode), Want: uint64(WAL)}
	case h.Before != 0 && h.Before >= h.Epoch:
		return &FormatError{Field: "epoch before", Off: off + offBefore, Kind: ErrValue, Got: uint64(h.Before), Want: uint64(h.Epoch)}
	case checkCapacity(h.Capacity) != nil:
		return &FormatError{Field: fieldCapacity, Off: off + offCapacity, Kind: ErrSize, Got: h.Capacity, Want: minCapacity}
	}
	return nil
}

// LastEpoch returns the epoch of the last record, if next is the number of the next one; 0 if there
// is none. The record itself may have been overwritten.
func (h *header) LastEpoch(next uint64) uint32 {
	if next > h.First {
		return h.Epoch
	}
	return h.Before
}

// Begin makes h the header of the next epoch, which belongs to instance, and whose first record has
// number next.
func (h *header) Begin(next uint64, instance [16]byte) {
	h.First, h.Before = next, h.LastEpoch(next)
	h.Instance = instance
	h.Epoch++
	h.Generation++
}

// Slot returns where the header of this generation belongs.
func (h *header) Slot() int { return headerOff + int(h.Generation%2)*blockSize }

// Salt returns the salt of an epoch: the first 8 octets of SHA-256(Key, ID, epoch). With one stored
// salt the records of earlier epochs in the ring could not be checked; and whoever knows one salt
// does not know the next one.
func (h *header) Salt(epoch uint32) uint64 {
	var b [36]byte
	copy(b[:], h.Key[:])
	copy(b[16:], h.ID[:])
	binary.BigEndian.PutUint32(b[32:], epoch)
	sum := sha256.Sum256(b[:])
	return binary.BigEndian.Uint64(sum[:])
}

// headSlot says where the used part of the ring begins. A log that has been read to its end has no
// record that would give the next sequence number, so the head also stores that.
//
//	off 0, 8 octets: Pos
//	off 8, 8: Seq
//	off 16, 4: CRC32C of the log's ID and octets 0 to 15
type headSlot struct {
	Pos uint64 // octets before it may be overwritten
	Seq uint64 // of the first record at or after Pos; the first of all is 1
}

// headLen is the size of a head slot.
const headLen = 20

// Append appends the headLen octets of a slot of the log id to b.
func (h headSlot) Append(b []byte, id *[16]byte) []byte {
	at := len(b)
	b = binary.BigEndian.AppendUint64(b, h.Pos)
	b = binary.BigEndian.AppendUint64(b, h.Seq)
	return binary.BigEndian.AppendUint32(b, headSum(b[at:], id))
}

// Parse reads the slot in b, the headLen octets at off.
func (h *headSlot) Parse(b []byte, id *[16]byte, off int) error {
	got, want := binary.BigEndian.Uint32(b[16:]), headSum(b[:16], id)
	if got != want {
		return &FormatError{Field: "head checksum", Off: off + 16, Kind: ErrChecksum, Got: uint64(got), Want: uint64(want)}
	}
	h.Pos, h.Seq = binary.BigEndian.Uint64(b), binary.BigEndian.Uint64(b[8:])
	if h.Pos%align != 0 || h.Seq == 0 {
		return &FormatError{Field: "head", Off: off, Kind: ErrValue, Got: h.Pos, Want: h.Pos / align * align}
	}
	return nil
}

func headSum(b []byte, id *[16]byte) uint32 {
	return crc32c.Update(checksum(id[:]), b)
}

// recordHeaderLen is the length in octets of the header before a payload.
const recordHeaderLen = 28

// fillerBit in the length marks a filler: the other bits are its size, including the header.
const fillerBit = 1 << 31

// recordHeader is the header of a record, or of a filler, which fills the ring where the next record
// would cross its end.
//
//	off 0, 4 octets: Len; in a filler 2^31 + the octets to the end of the ring
//	off 4, 4: Epoch
//	off 8, 8: Seq; a filler has that of the record after it
//	off 16, 8: Proven
//	off 24, 4: CRC32C of salt (8), Epoch (4), Seq (8), Len as above (4), Proven (8), payload
//	off 28: payload, then zeros up to a multiple of 64
type recordHeader struct {
	Len    int // of the payload
	Epoch  uint32
	Seq    uint64
	Filler uint64 // the size of a filler; 0: a record
	Proven uint64 // the position up to which its producer knew everything to be acknowledged as persistent
	Sum    uint32
}

// Size returns how many octets the record takes in the ring.
func (r *recordHeader) Size() uint64 {
	if r.Filler != 0 {
		return r.Filler
	}
	return recordSize(r.Len)
}

func (r *recordHeader) word() uint32 {
	if r.Filler != 0 {
		return fillerBit | uint32(r.Filler)
	}
	return uint32(r.Len)
}

// appendRecord appends a record with its padding to b.
func appendRecord(b []byte, salt uint64, epoch uint32, seq, proven uint64, payload []byte) []byte {
	r := recordHeader{Len: len(payload), Epoch: epoch, Seq: seq, Proven: proven}
	b = r.append(b, salt, payload)
	b = append(b, payload...)
	return append(b, zeros[:r.Size()-recordHeaderLen-uint64(len(payload))]...)
}

// appendFiller appends the header of a filler of size octets to b, padded to align. The octets
// after it, up to the end of the ring, do not matter.
func appendFiller(b []byte, salt uint64, epoch uint32, seq, proven, size uint64) []byte {
	r := recordHeader{Epoch: epoch, Seq: seq, Proven: proven, Filler: size}
	return append(r.append(b, salt, nil), zeros[:align-recordHeaderLen]...)
}

var zeros [align]byte

func (r *recordHeader) append(b []byte, salt uint64, payload []byte) []byte {
	b, sum := r.sum(b, salt, payload)
	b = binary.BigEndian.AppendUint32(b, r.word())
	b = binary.BigEndian.AppendUint32(b, r.Epoch)
	b = binary.BigEndian.AppendUint64(b, r.Seq)
	b = binary.BigEndian.AppendUint64(b, r.Proven)
	return binary.BigEndian.AppendUint32(b, sum)
}

// sum returns the checksum. It uses the room after b, because a separate array would be allocated,
// and returns b, which may have moved.
func (r *recordHeader) sum(b []byte, salt uint64, payload []byte) ([]byte, uint32) {
	at := len(b)
	b = binary.BigEndian.AppendUint64(b, salt)
	b = binary.BigEndian.AppendUint32(b, r.Epoch)
	b = binary.BigEndian.AppendUint64(b, r.Seq)
	b = binary.BigEndian.AppendUint32(b, r.word())
	b = binary.BigEndian.AppendUint64(b, r.Proven)
	return b[:at], crc32c.Update(checksum(b[at:]), payload)
}

// parseRecord reads the recordHeaderLen octets in b. It checks nothing.
func parseRecord(b []byte) recordHeader {
	r := recordHeader{Epoch: binary.BigEndian.Uint32(b[4:]), Seq: binary.BigEndian.Uint64(b[8:]), Proven: binary.BigEndian.Uint64(b[16:]), Sum: binary.BigEndian.Uint32(b[24:])}
	switch w := binary.BigEndian.Uint32(b); {
	case w == fillerBit:
		r.Len = -1 // an empty filler: there must be no second way to say "no payload"
	case w&fillerBit != 0:
		r.Filler = uint64(w &^ fillerBit)
	default:
		r.Len = int(w)
	}
	return r
}

// Reason says why octets are not the expected record.
type Reason uint8

// The reasons, in the order of the checks.
const (
	valid         Reason = iota
	badLength            // no record has this length, or none here
	badEpoch             // the epoch cannot occur here
	badSequence          // not the next number
	badChecksum          // header or payload is not what was written
	beyondTail           // it would end beyond the octets that were written
	missing              // it was there when the last session began, but is gone
	damaged              // a later record proves that it was acknowledged
	numberReasons        // not a reason
)

var reasonNames = [numberReasons]string{
	valid: "valid", badLength: "impossible length", badEpoch: "wrong epoch",
	badSequence: "wrong sequence number", badChecksum: "wrong checksum", beyondTail: "ends beyond the tail",
	missing: "gone, with all records after it", damaged: "damaged, and a later record proves that it was acknowledged",
}

// String returns the reason in words.
func (r Reason) String() string {
	if int(r) < len(reasonNames) {
		return reasonNames[r]
	}
	return fmt.Sprintf("Reason(%d)", uint8(r))
}

// expected is what a record must agree with.
type expected struct {
	Pos            uint64
	Seq            uint64
	MinEpoch, Last uint32 // epochs that can occur here
	Limit          uint64 // the position it may end at
	Capacity       uint64
}

// CheckHeader checks everything but the checksum, so that the payload can be read safely.
func (r *recordHeader) CheckHeader(p *expected) Reason {
	end := toEnd(p.Pos, p.Capacity)
	switch size := r.Size(); {
	case r.Filler != 0 && r.Filler != end, r.Filler == 0 && (r.Len < 0 || r.Len > PayloadLimit(p.Capacity) || size > end):
		return badLength
	case r.Epoch < p.MinEpoch || r.Epoch > p.Last:
		return badEpoch
	case r.Seq != p.Seq:
		return badSequence
	case p.Pos+size > p.Limit:
		return beyondTail
	}
	return valid
}

// CheckSum checks the checksum with the payload, which is nil for a filler.
func (r *recordHeader) CheckSum(salt uint64, payload []byte) Reason {
	if _, sum := r.sum(nil, salt, payload); sum != r.Sum {
		return badChecksum
	}
	return valid
}

// Kinds of FormatError, for errors.Is.
var (
	ErrMagic    = errors.New("no commit log")
	ErrVersion  = errors.New("unknown version")
	ErrSize     = errors.New("wrong size") // not the size in the header, or one that no log has
	ErrChecksum = errors.New("wrong checksum")
	ErrValue    = errors.New("impossible value") // no writer writes it
)

// fieldCapacity is the field that the creator of a log chooses.
const fieldCapacity = "capacity"

// advice says what to do next.
var advice = map[error]string{
	ErrMagic:    "name a log, or create one",
	ErrVersion:  "use a program of that version",
	ErrSize:     "if this is a commit log, restore the whole file",
	ErrChecksum: "restore the log from a copy",
	ErrValue:    "if the log was good once, restore it from a copy",
}

// FormatError says what is wrong with the octets of a log, and where.
type FormatError struct {
	Field     string // its name in docs/commitlog-format.md
	Off       int    // of the field, in octets from the start of the memory
	Kind      error  // one of the kinds
	Got, Want uint64
}

// Error says what is wrong, where, and what to do next.
func (e *FormatError) Error() string {
	if e.Field == fieldCapacity && errors.Is(e.Kind, ErrSize) {
		return fmt.Sprintf("commitlog: a ring of %d octets: %v (a capacity is a multiple of %d octets, at least %d)",
			e.Got, e.Kind, align, minCapacity)
	}
	return fmt.Sprintf("commitlog: %s at octet %d: %v: got %#x, want %#x (%s)",
		e.Field, e.Off, e.Kind, e.Got, e.Want, advice[e.Kind])
}

// Unwrap returns Kind.
func (e *FormatError) Unwrap() error { return e.Kind }
