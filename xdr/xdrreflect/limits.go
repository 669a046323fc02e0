package xdrreflect

import "errors"

// ErrType: a Go type has no XDR form. A fault of the program, never of a peer.
var ErrType = errors.New("no xdr form")

// ErrNil: a nil pointer where XDR has no way to say so. A fault of the program.
var ErrNil = errors.New("nil pointer that is not optional")

// Limits bound one Marshal or Unmarshal. A zero or negative field means its
// default. Exceeding one is xdr.ErrRange.
type Limits struct {
	// MaxOctets is the largest encoded size. If zero, the default of 4 MiB.
	MaxOctets int

	// MaxMemory is how many octets of memory a decoded value may take:
	// elements of slices at their size in Go, strings and opaques twice
	// their length, targets of pointers. If zero, the default of 16 MiB.
	MaxMemory int

	// MaxDepth is how deep values may be nested, one level for each array,
	// slice, pointer and structure; an element of a linked list takes two.
	// If zero, the default of 10,000.
	MaxDepth int
}

// withDefaults returns l with defaults in place.
func (l Limits) withDefaults() Limits {
	pick := func(v *int, d int) {
		if *v <= 0 {
			*v = d
		}
	}
	pick(&l.MaxOctets, 4<<20)
	pick(&l.MaxMemory, 16<<20)
	pick(&l.MaxDepth, 10_000)
	return l
}
