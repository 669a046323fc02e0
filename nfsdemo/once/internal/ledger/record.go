package ledger

import (
	"errors"
	"fmt"

	"github.com/stag-rdma/stag/xdr"
)

// magic begins every record: "onc" and the version of the format.
const magic = 0x6f6e6301

// Kind says what a record is.
type Kind uint32

// The kinds.
const (
	Intent Kind = 1 // a call is about to be executed
	Reply  Kind = 2 // what it was answered
	Void   Kind = 3 // it was not executed: what comes again is new
)

// String returns the name.
func (k Kind) String() string {
	switch k {
	case Intent:
		return "intent"
	case Reply:
		return "reply"
	case Void:
		return "void"
	}
	return fmt.Sprintf("kind %d", uint32(k))
}

// MaxRecord bounds a record, octets, and so what it may hold.
const MaxRecord = 32 << 10

// MaxOverhead is what a record has besides arguments, state and results: octets at most.
const MaxOverhead = 512

// ErrRecord: these octets are no record of this format.
var ErrRecord = errors.New("once: not a record of a journal")

// Record is one record of a journal.
type Record struct {
	Kind   Kind
	Number uint64 // of the call; calls are numbered in the order in which they came
	Key    Key    // not of a Void
	At     int64  // when it was made, ns since 1970; not of a Void
	Args   []byte // of an Intent: the arguments
	State  []byte // of an Intent: what the call was about to find
	Result []byte // of a Reply: the results
}

// Append appends the record.
func (r *Record) Append(b []byte) []byte {
	b = xdr.AppendUint32(b, magic)
	b = xdr.AppendUint32(b, uint32(r.Kind))
	b = xdr.AppendUint64(b, r.Number)
	if r.Kind == Void {
		return b
	}
	b = xdr.AppendInt64(b, r.At)
	b = r.Key.append(b)
	if r.Kind == Reply {
		return xdr.AppendOpaque(b, r.Result)
	}
	return xdr.AppendOpaque(xdr.AppendOpaque(b, r.Args), r.State)
}

// Parse reads a record, which ends with b. Args, State and Result are views of b. The error
// is ErrRecord.
func (r *Record) Parse(b []byte) error {
	if len(b) > MaxRecord {
		return fmt.Errorf("%w: %d octets, at most %d", ErrRecord, len(b), MaxRecord)
	}
	d := xdr.NewDecoder(b)
	*r = Record{}
	if m := d.Uint32(); m != magic && d.Err() == nil {
		return fmt.Errorf("%w: it begins with %#x, want %#x", ErrRecord, m, magic)
	}
	r.Kind, r.Number = Kind(d.Uint32()), d.Uint64()
	switch r.Kind {
	case Intent:
		r.At = d.Int64()
		r.Key.parse(&d)
		r.Args, r.State = d.Opaque(MaxRecord), d.Opaque(MaxRecord)
	case Reply:
		r.At = d.Int64()
		r.Key.parse(&d)
		r.Result = d.Opaque(MaxRecord)
	case Void:
	default:
		if d.Err() == nil {
			return fmt.Errorf("%w: unknown %v", ErrRecord, r.Kind)
		}
	}
	if err := d.End(); err != nil {
		return fmt.Errorf("%w: %w", ErrRecord, err)
	}
	return nil
}
