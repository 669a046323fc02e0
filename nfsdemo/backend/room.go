package backend

// Roomer is implemented by a Node whose file system knows how much room is left.
type Roomer interface {
	// Room returns the error that a Write of n > 0 octets at off would return now, most
	// likely ErrNoSpc, or nil. It reserves nothing.
	Room(off uint64, n int) error
}
