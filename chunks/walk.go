package chunks

// Scope is an optional half of a [Binding]: it reports for which programs the
// binding speaks. A binding without it speaks for all.
//
// Under RFC 5666 "any object MAY be chosen for chunking" (RFC 5666 Section 3.4)
// in a program that no binding speaks for; with one, only what it calls eligible.
type Scope interface {
	Covers(prog, vers uint32) bool
}

// Covers reports whether b speaks for a program. A nil b speaks for none.
func Covers(b Binding, prog, vers uint32) bool {
	if s, ok := b.(Scope); ok {
		return s.Covers(prog, vers)
	}
	return b != nil
}

// Visit is called for a variable-length opaque or string whose data are due at
// offset pos, just after its count word n. It returns how many octets of the
// item follow there: the data and their pad, and before them the padding of an
// RDMA_MSGP; 0 when a read chunk has them. A negative number ends the walk.
type Visit func(pos, n int) (octets int)

// Walker is an optional half of a [Binding]: it finds every variable-length
// opaque and string of a message, as the receiver of an RDMA_MSGP must (RFC 5666
// Section 3.9). ok is false when the octets do not decode up to the last item,
// or visit ended the walk. A procedure the program does not have, and one of a
// program that is not covered, has no items. Methods borrow what they are given.
type Walker interface {
	Scope
	WalkArgs(prog, vers, proc uint32, args []byte, visit Visit) (ok bool)
	WalkResults(prog, vers, proc uint32, results []byte, visit Visit) (ok bool)
}

// WalkerOf returns the Walker of a program, nil if b has none.
func WalkerOf(b Binding, prog, vers uint32) Walker {
	if w, ok := single(b, prog, vers).(Walker); ok && w.Covers(prog, vers) {
		return w
	}
	return nil
}
