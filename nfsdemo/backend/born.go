package backend

// Dated is an optional half of an FS that knows when its files were made.
type Dated interface {
	// Now returns the time by the clock that births are taken from, or a little less: ns
	// since 1970. A file that is made later was born at that time or after it.
	Now() int64
}

// Born is an optional half of a Node.
type Born interface {
	// Birth returns when the file was made, ns since 1970, as exactly as the file system
	// keeps it; 0 if it does not.
	Birth() int64
}

// Finisher is an optional half of a Node of an FS that makes a file first and dresses it
// afterwards, so that a crash may come between.
type Finisher interface {
	// Finish does what is left of the making of the file with in. It does nothing to a file
	// that somebody has changed since, as far as one can see that.
	Finish(in *Init) error
}

// Syncer is an optional half of a Node whose changes may not be durable after a crash of
// the process that made them.
type Syncer interface {
	// Sync makes the attributes of a file durable, and the names in a directory.
	Sync() error
}
