package pmem

import (
	"errors"
	"io/fs"
	"math"
	"os"
)

// Open opens a file made by Create, and owns it until Close: the file is locked exclusively, so
// that a second Open fails with ErrLocked. The content of Bytes is then durable, in the sense that
// fdatasync has succeeded for it. The application's recovery has to find out whether it makes sense.
//
// Errors: ErrOpen with the cause, ErrLocked, ErrSize, and ErrRefused with the reason.
func Open(kind Kind, path string, o *Options) (*Memory, error) {
	opt := o.orDefault()
	if int(kind) >= len(kindNames) {
		return nil, &Error{Op: "open", Path: path, Kind: ErrRefused, Err: errors.New("unknown kind " + kind.String())}
	}
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return nil, &Error{Op: "open", Path: path, Kind: ErrOpen, Err: cause(err)}
	}
	m, err := own(kind, f, &opt)
	if err != nil {
		_ = f.Close() // nothing was written
		return nil, err
	}
	return m, nil
}

// own locks an open file and makes a Memory of it.
func own(kind Kind, f *os.File, opt *Options) (*Memory, error) {
	d := &device{f: f, out: f, path: f.Name(), hooks: opt.Hooks}
	if err := lock(f); err != nil {
		return nil, err
	}
	size, err := sizeOf(f, opt.Size)
	if err != nil {
		return nil, d.error("open", ErrSize, err)
	}
	d.size = size
	if err := d.settle(); err != nil {
		return nil, err
	}
	med, err := attach(kind, d)
	if err != nil {
		return nil, err
	}
	m := newMemory(kind, d, med, opt)
	m.unread = d.unreadable(kind, med)
	if err := d.check(); err != nil { // replaced or truncated while we were opening it
		return nil, errors.Join(err, med.release(), d.release())
	}
	return m, nil
}

// sizeOf returns the size of f, which must be a regular file of want octets (0: of any size).
func sizeOf(f *os.File, want int) (int, error) {
	fi, err := f.Stat()
	if err != nil {
		return 0, err
	}
	size := fi.Size()
	switch {
	case !fi.Mode().IsRegular():
		return 0, &fs.PathError{Op: "open", Path: f.Name(), Err: errors.New("not a regular file")}
	case want != 0 && size != int64(want):
		return 0, &sizeError{got: size, want: int64(want)}
	case size <= 0 || size > math.MaxInt-4096:
		return 0, errors.New("empty, or larger than memory")
	}
	return int(size), nil
}

// attach returns the medium of a kind.
func attach(kind Kind, d *device) (medium, error) {
	switch kind {
	case Mmap:
		return openMmap(d)
	case DAX:
		return openDAX(d)
	default:
		return openFile(d)
	}
}
