package ledger

import (
	"errors"
	"fmt"

	"github.com/stag-rdma/stag/xdr"
)

// magic begins every record: "onc" and the version of the format.
const magic = 0x6f6e6302

// Kind is the kind of a record.
type Kind uint32

// The kinds.
const (
	Intent Kind = 1 // a call is about to be executed
	Reply  Kind = 2 // its results
	Void   Kind = 3 // it was not executed: if it comes again, it is new
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

// MaxRecord is the size of the largest record in octets.
const MaxRecord = 32 << 10

// MaxOverhead is the most octets of a record besides arguments, state and results.
const MaxOverhead = 560

// ErrRecord: the octets are not a record of this format.
var ErrRecord = errors.New("once: not a record of a journal")

// Record is one record of a journal.
type Record struct {
	Kind   Kind
	Number uint64 // of the call; calls are numbered in the order in which they came
	Key    Key    // not of a Void
	At     int64  // when it was made, in ns since 1970; not of a Void
	Args   []byte // of an Intent: what of the arguments is needed to settle it
	State  []byte // of an Intent: what the call would find
	Result []byte // of a Reply: the results
}

// Append appends the record to b. It copies Args, State and Result.
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

// Parse reads a record, which must take all of b. Args, State and Result are views of b. The error is
// ErrRecord.
func (r *Record) Parse(b []byte) error {
	if len(b) > MaxRecord {
		return fmt.Errorf("%w: got %d octets, want at most %d", ErrRecord, len(b), MaxRecord)
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
