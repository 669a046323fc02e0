// Package pmemhook lets tests intercept the operations of a memory: pmemtest provides the function that
// pmem calls before each of them.
package pmemhook

// Op names an operation of a memory, by its system call if there is one.
type Op string

// The operations.
const (
	// Open: syncing the file before its octets are trusted.
	Open Op = "open"
	// Write: pwrite.
	Write Op = "pwrite"
	// Datasync: fdatasync.
	Datasync Op = "fdatasync"
	// Directory: fsync of the directory of a new file.
	Directory Op = "fsync"
	// Msync: msync.
	Msync Op = "msync"
	// WriteBack: writing back cache lines of persistent memory.
	WriteBack Op = "write back"
	// Read: pread of what the medium holds, for a Verify.
	Read Op = "pread"
	// Model: a Persist of the crash model.
	Model Op = "persist"
)

// Hooks are called before operations. A nil *Hooks does nothing.
type Hooks struct {
	// Before is called with the operation and its range. If it returns an error, the
	// operation is not executed and has that error. If it blocks, the operation
	// hangs. Several goroutines may call it.
	Before func(op Op, off, n int) error
}

// Call calls Before.
func (h *Hooks) Call(op Op, off, n int) error {
	if h == nil || h.Before == nil {
		return nil
	}
	return h.Before(op, off, n)
}
