package pmem

// Op names an operation of a memory, by its system call if there is one.
type Op string

// The operations.
const (
	// OpOpen: syncing the file before its octets are trusted.
	OpOpen Op = "open"
	// OpWrite: pwrite.
	OpWrite Op = "pwrite"
	// OpDatasync: fdatasync.
	OpDatasync Op = "fdatasync"
	// OpDirectory: fsync of the directory of a new file.
	OpDirectory Op = "fsync"
	// OpMsync: msync.
	OpMsync Op = "msync"
	// OpWriteBack: writing back cache lines of persistent memory.
	OpWriteBack Op = "write back"
	// OpRead: pread of what the medium holds, for a Verify.
	OpRead Op = "pread"
	// OpPersist: a Persist of the crash model.
	OpPersist Op = "persist"
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
