package backend

// Dated is implemented by an FS that knows when its files were made.
type Dated interface {
	// Now returns the time of the clock that gives births, or a little less: ns since 1970.
	// No file that is made after the call has an earlier birth.
	Now() int64
}

// Born is implemented by a Node that knows when it was made.
type Born interface {
	// Birth returns when the file was made, in ns since 1970, as exactly as the file system
	// stores it; 0 if it does not.
	Birth() int64
}

// Finisher is implemented by a Node whose FS makes a file first and sets its attributes
// afterwards, so that a crash can come in between.
type Finisher interface {
	// Finish sets the attributes of in that a crash has left unset. It does not touch a file
	// that somebody has visibly changed since it was made. It borrows in.
	Finish(in *Init) error
}

// Syncer is implemented by a Node whose changes may not yet be durable when the process
// that made them crashes.
type Syncer interface {
	// Sync makes durable the attributes of a file, or the names in a directory.
	Sync() error
}
