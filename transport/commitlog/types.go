package commitlog

import (
	"errors"

	"github.com/stag-rdma/stag/transport/commitlog/internal/layout"
	"github.com/stag-rdma/stag/transport/commitlog/internal/machine"
	"github.com/stag-rdma/stag/transport/commitlog/internal/window"
)

// Mode says when an append is acknowledged, and what recovery trusts.
type Mode = layout.Mode

// The modes.
const (
	// WAL acknowledges with the store of the tail, behind the flush of the record: one
	// disk flush per group of appends. Recovery rolls forward over the records behind the
	// durable tail.
	WAL = layout.WAL
	// Strict flushes the tail too before it acknowledges. Recovery trusts the tail alone.
	Strict = layout.Strict
)

// Hash names the algorithm of Verify.
type Hash = layout.Hash

// The hashes.
const (
	CRC32C = layout.CRC32C
	SHA256 = layout.SHA256
)

// Level says what an append has obtained.
type Level uint8

// The levels.
const (
	// Placed: everybody at the consumer sees the record; it is lost with the process,
	// because the memory of the log is not persistent.
	Placed Level = 1
	// Persistent: recovery finds the record.
	Persistent Level = 2
)

// String returns "placed" or "persistent".
func (l Level) String() string {
	if l == Persistent {
		return "persistent"
	}
	return "placed"
}

// FormatError says what is wrong with the octets of a log, and where; errors.Is finds one
// of ErrMagic, ErrVersion, ErrSize, ErrChecksum and ErrValue.
type FormatError = layout.FormatError

// Kinds of FormatError.
var (
	ErrMagic    = layout.ErrMagic    // no commit log
	ErrVersion  = layout.ErrVersion  // of another version
	ErrSize     = layout.ErrSize     // the memory is not as large as the header says
	ErrChecksum = layout.ErrChecksum // damaged
	ErrValue    = layout.ErrValue    // a field that no writer writes
)

// PoisonError is a record that fails its check: its position, its number, and why. It and what
// lies behind it is never handed out, and nothing can be appended; what lies before it
// stays readable.
type PoisonError = machine.Poison

// Reason says why a record is poisoned.
type Reason = layout.Reason

// The reasons.
const (
	BadLength   = layout.BadLength
	BadEpoch    = layout.BadEpoch
	BadSequence = layout.BadSequence
	BadChecksum = layout.BadChecksum
	BeyondTail  = layout.BeyondTail
	Missing     = layout.Missing
)

// Record is one that has passed its checks. The payload is a copy and belongs to the
// reader.
type Record = machine.Record

// Answer is what Log.Advertise says and Producer.Open wants: where the log is to be
// reached, and what has survived. It is the one thing that has to be carried between the
// two sides; Append and ParseAnswer give it octets. It holds the salt of the epoch: who
// can read it can forge records.
type Answer = machine.Answer

// AnswerLen is the length of an Answer, octets.
const AnswerLen = machine.AnswerLen

// ParseAnswer reads what Answer.Append has written. It does not retain b. Error:
// ErrBadAnswer.
func ParseAnswer(b []byte) (*Answer, error) { return machine.ParseAnswer(b) }

// Errors.
var (
	// ErrNotHandedOut: Release of a record that Next has not returned.
	ErrNotHandedOut = machine.ErrNotHandedOut
	// ErrEpochs: 2^32-1 sessions have been opened.
	ErrEpochs = machine.ErrEpochs
	// ErrTooLarge: a payload beyond PayloadLimit.
	ErrTooLarge = machine.ErrTooLarge
	// ErrBadAnswer: no consumer gives this answer.
	ErrBadAnswer = machine.ErrBadAnswer
	// ErrLostRecords: the log does not hold what it has acknowledged, or somebody else has
	// appended to it.
	ErrLostRecords = machine.ErrLostRecords
	// ErrAlign: the memory does not begin at a multiple of 8.
	ErrAlign = window.ErrAlign
	// ErrClosed: the Log or the Producer is closed.
	ErrClosed = errors.New("commitlog: closed")
	// ErrFull: TryBegin would have to wait until the consumer releases records.
	ErrFull = machine.ErrFull
	// ErrInDoubt: an append was given up while it was under way. It may be in the log,
	// or come to be there.
	ErrInDoubt = errors.New("commitlog: append given up, its record may be in the log")
	// ErrNoExtension: the connection was made without Flush and Atomic Write.
	ErrNoExtension = errors.New("commitlog: the connection lacks the commit extension (set rdmap.ExtCommit on both sides)")
)

// PayloadLimit returns the largest payload that a ring of capacity octets takes.
func PayloadLimit(capacity uint64) int { return layout.PayloadLimit(capacity) }

// MemorySize returns how many octets of memory a log needs whose ring has capacity octets.
// Capacity is a multiple of 64, at least 256. Error: *FormatError.
func MemorySize(capacity uint64) (int, error) {
	if err := layout.CheckCapacity(capacity); err != nil {
		return 0, err
	}
	return layout.RingOff + int(capacity), nil
}
