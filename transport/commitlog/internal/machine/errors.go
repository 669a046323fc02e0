package machine

import (
	"errors"
	"fmt"
)

// Kinds of FormatError, for errors.Is.
var (
	// ErrMagic: the octets are not a commit log.
	ErrMagic = errors.New("no commit log")
	// ErrVersion: the commit log has a version that this program does not know.
	ErrVersion = errors.New("unknown version")
	// ErrSize: the memory does not have the size in the header, or no log can have its size.
	ErrSize = errors.New("wrong size")
	// ErrChecksum: the octets are not those that were written.
	ErrChecksum = errors.New("wrong checksum")
	// ErrValue: a field has a value that no writer gives it.
	ErrValue = errors.New("impossible value")
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
			e.Got, e.Kind, Align, MinCapacity)
	}
	return fmt.Sprintf("commitlog: %s at octet %d: %v: got %#x, want %#x (%s)",
		e.Field, e.Off, e.Kind, e.Got, e.Want, advice[e.Kind])
}

// Unwrap returns Kind.
func (e *FormatError) Unwrap() error { return e.Kind }
