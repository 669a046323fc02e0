package commitlog

import (
	"errors"

	"github.com/stag-rdma/stag/transport/commitlog/internal/machine"
)

// Mode determines when an append is acknowledged.
type Mode = machine.Mode

// The modes.
const (
	// WAL acknowledges with the store of the tail, after the flush of the record: one disk flush
	// per group of appends. Recovery rolls forward over the records after the durable tail.
	WAL = machine.WAL
	// Strict also flushes the tail before it acknowledges: there is no moment in which damage to the last records
	// is taken for their end.
	Strict = machine.Strict
)

// Hash names the algorithm of Verify.
type Hash = machine.Hash

// The hashes.
const (
	CRC32C = machine.CRC32C
	// NoHash, in an Answer: the medium of the log cannot be read back, so nothing can be verified.
	NoHash = machine.NoHash
)

// Level says how durable an append is.
type Level uint8

// The levels.
const (
	// Placed: the record is visible at the consumer, but is lost with its process, because the
	// memory of the log is not persistent.
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

// FormatError says what is wrong with the octets of a log, and where. It matches one of ErrMagic,
// ErrVersion, ErrSize, ErrChecksum and ErrValue with errors.Is.
type FormatError = machine.FormatError

// Kinds of FormatError.
var (
	ErrMagic    = machine.ErrMagic    // not a commit log
	ErrVersion  = machine.ErrVersion  // of another version
	ErrSize     = machine.ErrSize     // the memory does not have the size in the header
	ErrChecksum = machine.ErrChecksum // damaged
	ErrValue    = machine.ErrValue    // a field that no writer writes
)

// PoisonError reports a record that fails its check: its position, its number, and the reason. Next
// never returns that record and those after it, and nothing can be appended. The records before it
// stay readable.
type PoisonError = machine.Poison

// Record is a record that has passed its checks. The payload is a copy, and belongs to the
// reader.
type Record = machine.Record

// Answer is the result of Log.Advertise and the input of Producer.Open. It says where to reach
// the log, and what has survived. The application must carry it from the consumer to the producer;
// Append and ParseAnswer encode and decode it. It contains the salt of the epoch: whoever can read it
// can forge records.
type Answer = machine.Answer

// AnswerLen is the length of an encoded Answer in octets.
const AnswerLen = machine.AnswerLen

// ParseAnswer decodes the output of Answer.Append. It does not retain b. Error: ErrBadAnswer.
func ParseAnswer(b []byte) (*Answer, error) { return machine.ParseAnswer(b) }

// Errors.
var (
	// ErrNotHandedOut: Release of a record that Next has not returned.
	ErrNotHandedOut = machine.ErrNotHandedOut
	// ErrEpochs: 2^32-1 sessions have been opened.
	ErrEpochs = machine.ErrEpochs
	// ErrTooLarge: a payload beyond PayloadLimit.
	ErrTooLarge = machine.ErrTooLarge
	// ErrBadAnswer: no consumer sends such an answer.
	ErrBadAnswer = machine.ErrBadAnswer
	// ErrLostRecords: acknowledged records are missing from the log, or another producer has
	// appended to it.
	ErrLostRecords = machine.ErrLostRecords
	// ErrNotVerifiable: ProducerOptions.Verify, and a log with NoHash.
	ErrNotVerifiable = machine.ErrNotVerifiable
	// ErrAlign: the memory does not begin at a multiple of 8.
	ErrAlign = errors.New("commitlog: memory is not aligned to 8 octets (use memory of package pmem)")
	// ErrClosed: the Log or the Producer is closed.
	ErrClosed = errors.New("commitlog: closed")
	// ErrFull: TryBegin would have to wait until the consumer releases records.
	ErrFull = machine.ErrFull
	// ErrQueue: Begin would exceed ProducerOptions.Queue.
	ErrQueue = errors.New("commitlog: too many appends in progress (wait for some of them first)")
	// ErrSilent: the consumer has given no sign of life for ProducerOptions.Silence.
	ErrSilent = errors.New("commitlog: no sign of life from the consumer")
	// ErrInDoubt: the context of an append ended, or the consumer was silent, while it was in progress. Its
	// record may be in the log now or later.
	ErrInDoubt = errors.New("commitlog: append given up, its record may be in the log")
	// ErrMismatch: a Verify of a session of Local has found other octets.
	ErrMismatch = errors.New("commitlog: the medium does not hold what was flushed to it (look at the device)")
	// ErrNoExtension: the connection has no Flush and Atomic Write.
	ErrNoExtension = errors.New("commitlog: the connection lacks the commit extension (set verbs.ExtCommit on both sides)")
)

// PayloadLimit returns the size of the largest payload, in octets, in a ring of capacity octets.
func PayloadLimit(capacity uint64) int { return machine.PayloadLimit(capacity) }

// MemorySize returns how many octets of memory a log with a ring of capacity octets needs. capacity must
// be a multiple of 64, and at least 256. The error is a *FormatError.
func MemorySize(capacity uint64) (int, error) {
	if err := machine.CheckCapacity(capacity); err != nil {
		return 0, err
	}
	return machine.RingOff + int(capacity), nil
}
