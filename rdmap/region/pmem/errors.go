package pmem

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/stag-rdma/stag/rdmap/region"
)

// Kinds of Error, for errors.Is. Further kinds are region.ErrRegionLost, region.ErrPinned and
// region.ErrNotVerifiable.
var (
	// ErrLocked: the file is already open, in this process or another one.
	ErrLocked = errors.New("file is in use")
	// ErrCreate: the file could not be created, and nothing was left behind.
	ErrCreate = errors.New("not created")
	// ErrOpen: the file cannot be read, or its content cannot be made durable.
	ErrOpen = errors.New("not opened")
	// ErrSize: the size is impossible for a memory.
	ErrSize = errors.New("wrong size")
	// ErrRefused: this backend cannot keep its promise on this file or machine.
	ErrRefused = errors.New("refused")
	// ErrRange: octets outside the memory. It is not final.
	ErrRange = errors.New("range outside the memory")
	// ErrUnread: the system could not read the medium. Of itself it changes nothing.
	ErrUnread = errors.New("medium not read")
	// ErrFailed: the system could not persist. It is final; see Memory.Persist.
	ErrFailed = errors.New("persist failed")
	// ErrClosed: the memory is closed.
	ErrClosed = errors.New("memory closed")
)

// advice tells the reader of an error what to do next.
var advice = []struct {
	kind error
	text string
}{
	{ErrLocked, "stop the other opener, or use another file"},
	{ErrCreate, "free space or choose another place, and create again"},
	{ErrOpen, "repair the cause and open again"},
	{ErrSize, "restore the file"},
	{ErrRefused, "open as file or mmap"},
	{ErrRange, "stay within Bytes"},
	{ErrUnread, "what was acknowledged may be damaged: look at the device, and compare with another copy"},
	{region.ErrNotVerifiable, "do not ask for Verify, or use a file system on a disk, such as ext4 or XFS"},
	{ErrFailed, "what was not acknowledged may be lost: close, repair the cause, reopen through recovery"},
	{ErrClosed, "open again"},
	{region.ErrRegionLost, "close, restore the file, reopen through recovery"},
	{region.ErrPinned, "leave the memory alone until the system call returns, then close and reopen through recovery"},
}

// opCreate is the operation of Create. Its errors need other advice than those of Open.
const opCreate = "create"

// Error is the type of the errors of this package. errors.Is finds its Kind and its cause.
type Error struct {
	Op   string // what was being done: "open", "lock", "fdatasync", ...
	Path string // of the file; "" for a memory without one
	Kind error  // one of the kinds
	Err  error  // the cause; nil if there is none beyond Kind
}

// Error returns what happened, why, and what to do next.
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString("pmem: " + e.Op)
	if e.Path != "" {
		b.WriteString(" " + e.Path)
	}
	b.WriteString(": " + e.Kind.Error())
	if e.Err != nil {
		b.WriteString(": " + e.Err.Error())
	}
	if text := e.advice(); text != "" {
		b.WriteString(" (" + text + ")")
	}
	return b.String()
}

// advice returns what the caller can do next, "" if nothing is known.
func (e *Error) advice() string {
	if e.Op == opCreate {
		switch {
		case errors.Is(e.Err, fs.ErrExist):
			return "open it, or remove it if nobody needs what it holds"
		case errors.Is(e.Kind, ErrSize):
			return "a memory has at least one octet"
		}
	}
	for _, a := range advice {
		if errors.Is(e.Kind, a.kind) {
			return a.text
		}
	}
	return ""
}

// Unwrap returns Kind and Err.
func (e *Error) Unwrap() []error {
	if e.Err == nil {
		return []error{e.Kind}
	}
	return []error{e.Kind, e.Err}
}

// cause strips the path from err, since Error has it already.
func cause(err error) error {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		return e.Err
	}
	return err
}

// sizeError reports a size, octets, that is not the expected one.
type sizeError struct{ got, want int64 }

func (e *sizeError) Error() string { return fmt.Sprintf("%d octets, want %d", e.got, e.want) }
