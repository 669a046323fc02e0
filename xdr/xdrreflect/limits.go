package xdrreflect

import (
	"cmp"
	"errors"
	"fmt"

	"github.com/stag-rdma/stag/internal/setting"
)

// ErrType: a Go type has no XDR form. A fault of the program, never of a peer.
var ErrType = errors.New("no xdr form")

// ErrNil: a nil pointer where XDR has no way to say so. A fault of the program.
var ErrNil = errors.New("nil pointer that is not optional")

// Limits bound one Marshal or Unmarshal. A zero field means its default; a negative one is an error.
// Exceeding one is xdr.ErrRange.
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

// fill returns l with the defaults in place. An error says which limit is out of range.
func (l Limits) fill() (Limits, error) {
	err := setting.Check(
		setting.Count("MaxOctets", l.MaxOctets), setting.Count("MaxMemory", l.MaxMemory), setting.Count("MaxDepth", l.MaxDepth),
	)
	if err != nil {
		return l, fmt.Errorf("xdrreflect: %w", err)
	}
	l.MaxOctets = cmp.Or(l.MaxOctets, 4<<20)
	l.MaxMemory = cmp.Or(l.MaxMemory, 16<<20)
	l.MaxDepth = cmp.Or(l.MaxDepth, 10_000)
	return l, nil
}
