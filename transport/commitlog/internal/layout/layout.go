package layout

import "math"

// Where things are, in octets from the start of the memory.
const (
	BlockSize = 4096
	HeaderOff = 0             // header A; header B is one block behind it
	TailOff   = 2 * BlockSize // the tail word
	HeadOff   = 3 * BlockSize // head slots A and B, and the published head
	RingOff   = 4 * BlockSize

	// HeadSlotGap is the distance of the two head slots: they share no sector.
	HeadSlotGap = 2048
	// PublishedOff is where a producer reads the head. Recovery does not look at it.
	PublishedOff = HeadOff + 1024

	// Align is what records are padded to, and every position a multiple of.
	Align = 64
	// MinCapacity leaves room for the smallest record and a filler.
	MinCapacity = 4 * Align
	// MaxPayload of a record, whatever the capacity.
	MaxPayload = 1 << 30
)

// CheckCapacity reports whether a ring can have n octets.
func CheckCapacity(n uint64) error {
	if n < MinCapacity || n%Align != 0 || n > math.MaxInt64/2 {
		return &FormatError{Field: fieldCapacity, Off: HeaderOff + offCapacity, Kind: ErrSize, Got: n, Want: MinCapacity}
	}
	return nil
}

// PayloadLimit is the largest payload that a ring of capacity octets takes. A record is at
// most half the ring: then it fits behind any filler once the ring is empty.
func PayloadLimit(capacity uint64) int {
	half := capacity / 2 / Align * Align
	return int(min(half-RecordHeaderLen, MaxPayload))
}

// Ring returns where position p lies, in octets from the start of the ring.
func Ring(p, capacity uint64) uint64 { return p % capacity }

// ToEnd returns how many octets are left from position p to the end of the ring.
func ToEnd(p, capacity uint64) uint64 { return capacity - p%capacity }

// RecordSize returns the octets that a payload of n octets takes in the ring.
func RecordSize(n int) uint64 { return (RecordHeaderLen + uint64(n) + Align - 1) / Align * Align }
