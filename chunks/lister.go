package chunks

// Lister is an optional half of a [Binding] for programs whose messages can have several
// eligible items: it finds them all in octets from which some of them were taken out.
type Lister interface {
	// Lists reports whether it knows a program. In messages of other programs the Find
	// methods of Binding find all eligible items.
	Lists(prog, vers uint32) bool
	// ListArgs and ListResults call visit for every DDP-eligible item, in order; see
	// [Visit]. ok is false when the octets do not decode up to the last item, when there is
	// something that cannot be stepped over, and when visit ended the walk. They borrow
	// what they are given.
	ListArgs(prog, vers, proc uint32, args []byte, visit Visit) (ok bool)
	ListResults(prog, vers, proc uint32, results []byte, visit Visit) (ok bool)
}

// ListerOf returns the Lister of a program, nil if b has none.
func ListerOf(b Binding, prog, vers uint32) Lister {
	if l, ok := single(b, prog, vers).(Lister); ok && l.Lists(prog, vers) {
		return l
	}
	return nil
}
