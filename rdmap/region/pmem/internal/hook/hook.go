// Package hook lets tests come between a memory and the system: pmemtest hands out
// what pmem calls before each operation.
package hook

// Op names an operation of a memory; the name of the system call where there is one.
type Op string

// The operations.
const (
	// Open: settling the file before its octets are trusted.
	Open Op = "open"
	// Write: pwrite.
	Write Op = "pwrite"
	// Datasync: fdatasync.
	Datasync Op = "fdatasync"
	// Directory: fsync of the directory of a new file.
	Directory Op = "fsync"
	// Msync: msync.
	Msync Op = "msync"
	// WriteBack: cache lines of persistent memory.
	WriteBack Op = "write back"
	// Model: the crash model's durable image.
	Model Op = "persist"
)

// Hooks come before operations. A nil *Hooks does nothing.
type Hooks struct {
	// Before is called with the operation and its range. An error takes the place of
	// the operation, which is not executed. It may block: the call hangs. It is called
	// from several goroutines.
	Before func(op Op, off, n int) error
}

// Call calls Before.
func (h *Hooks) Call(op Op, off, n int) error {
	if h == nil || h.Before == nil {
		return nil
	}
	return h.Before(op, off, n)
}
