package verbs

import "strconv"

// AtomicOp is the AOpCode of an Atomic Request (RFC 7306 Section 5.2.1).
type AtomicOp uint8

// The atomic operations.
const (
	AtomicFetchAdd AtomicOp = 0
	AtomicSwap     AtomicOp = 1 // reserved in RFC 7306: needs ExtSwap
	AtomicCmpSwap  AtomicOp = 2
)

// String returns the name of the operation.
func (op AtomicOp) String() string {
	switch op {
	case AtomicFetchAdd:
		return "FetchAdd"
	case AtomicSwap:
		return "Swap"
	case AtomicCmpSwap:
		return "CmpSwap"
	}
	return "AtomicOp(" + strconv.Itoa(int(op)) + ")"
}

// Atomic says what an atomic operation does. Values are numbers, which the peer stores in its own
// byte order.
type Atomic struct {
	Op AtomicOp
	// Operand is what FetchAdd adds, or what CmpSwap and Swap store.
	Operand uint64
	// Mask has, for FetchAdd, the highest bit of each field set (0: one field of 64 bits); for
	// CmpSwap, the bits to change. Swap ignores it.
	Mask uint64
	// Compare and CompareMask are for CmpSwap alone: the value to compare with, and the bits that
	// count.
	Compare, CompareMask uint64
}

// Answer is the result of a request other than a Read. It is filled in before the request
// completes.
type Answer struct {
	Old uint64   // atomics: what the word held
	Sum [64]byte // Verify: the hash
	N   int      // Verify: length of the hash, octets
}

// FlushFlags say what a Flush asks for. Without flags it is a fence for earlier writes.
type FlushFlags uint8

// The flags of a Flush Request, draft-talpey-rdma-commit Section 3.1.
const (
	FlushPersistent FlushFlags = 1 << 0 // P: the octets outlive the peer's process
	FlushVisible    FlushFlags = 1 << 1 // G: everybody at the peer sees them
)
