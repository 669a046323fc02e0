package machine

import "math"

// Where things are, in octets from the start of the memory.
const (
	BlockSize = 4096
	HeaderOff = 0             // header A; header B is one block after it
	TailOff   = 2 * BlockSize // the tail word
	HeadOff   = 3 * BlockSize // head slot A and the published head; slot B is one block after it
	RingOff   = 5 * BlockSize

	// HeadSlotGap is the distance between the two head slots, so that no write of one block harms both.
	HeadSlotGap = BlockSize
	// PublishedOff is where a producer reads the head. Recovery does not look at it.
	PublishedOff = HeadOff + 1024

	// Align is the multiple to which records are padded, and of which every position is a multiple.
	Align = 64
	// MinCapacity leaves room for the smallest record and a filler.
	MinCapacity = 4 * Align
	// MaxPayload is the largest payload of a record in octets, whatever the capacity.
	MaxPayload = 1 << 30
)

// CheckCapacity returns a *FormatError unless a ring can have n octets.
func CheckCapacity(n uint64) error {
	if n < MinCapacity || n%Align != 0 || n > math.MaxInt64/2 {
		return &FormatError{Field: fieldCapacity, Off: HeaderOff + offCapacity, Kind: ErrSize, Got: n, Want: MinCapacity}
	}
	return nil
}

// PayloadLimit returns the largest payload in octets for a ring of capacity octets. A record takes
// at most half the ring, so that it fits after any filler when the ring is empty.
func PayloadLimit(capacity uint64) int {
	half := capacity / 2 / Align * Align
	return int(min(half-RecordHeaderLen, MaxPayload))
}

// Ring returns where position p is, in octets from the start of the ring.
func Ring(p, capacity uint64) uint64 { return p % capacity }

// ToEnd returns the number of octets from position p to the end of the ring.
func ToEnd(p, capacity uint64) uint64 { return capacity - p%capacity }

// RecordSize returns the octets that a payload of n octets takes in the ring.
func RecordSize(n int) uint64 { return (RecordHeaderLen + uint64(n) + Align - 1) / Align * Align }
