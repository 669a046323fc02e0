package xdr

import (
	"errors"
	"strconv"
)

// Causes of a [DecodeError]; test for them with errors.Is.
var (
	// ErrShort: the input ends before the item does.
	ErrShort = errors.New("not enough octets")
	// ErrRange: a length, count or enumerated value is outside its bounds.
	ErrRange = errors.New("value out of range")
	// ErrTrailing: octets are left after the last item.
	ErrTrailing = errors.New("octets left after the last item")
)

// DecodeError says what did not decode. It wraps its cause, which is
// [ErrShort], [ErrRange], [ErrTrailing] or what was given to [Decoder.Fail].
type DecodeError struct {
	Field string // name of the field or structure, in the RFC's spelling; may be empty
	Off   int    // octet offset of the item that failed, from the start of the input
	Err   error  // the cause, never nil
}

// Error returns, for example, "xdr: cred at octet 24: not enough octets".
func (e *DecodeError) Error() string {
	s := "xdr: "
	if e.Field != "" {
		s += e.Field + " "
	}
	return s + "at octet " + strconv.Itoa(e.Off) + ": " + e.Err.Error()
}

// Unwrap returns the cause.
func (e *DecodeError) Unwrap() error { return e.Err }
