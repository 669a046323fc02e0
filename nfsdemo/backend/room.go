package backend

// Roomer is an optional half of a Node whose file system knows what room it has.
type Roomer interface {
	// Room returns the error, ErrNoSpc most likely, that a Write of n octets at off would
	// have now, n > 0; nil if it would have none. It reserves nothing.
	Room(off uint64, n int) error
}
