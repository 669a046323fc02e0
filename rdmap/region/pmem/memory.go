package pmem

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"sync"
	"syscall"
	"unsafe"

	"github.com/stag-rdma/stag/rdmap/region"
)

// Memory is memory in a file, of the kind File, Mmap or DAX. Its methods may be called from several
// goroutines at once.
type Memory struct {
	kind   Kind
	d      *device
	data   []byte // what peers reach
	med    medium
	fl     *Flusher
	unread error // why the medium cannot be read back

	closeMu sync.Mutex
	closed  bool
}

var (
	_ region.Guarded        = (*Memory)(nil)
	_ region.RangePersister = (*Memory)(nil)
	_ region.Watched        = (*Memory)(nil)
	_ region.ReadBacker     = (*Memory)(nil)
)

// Path returns the name of the file, as given to Open.
func (m *Memory) Path() string { return m.d.path }

// Bytes lends the octets until Close. For File they are plain memory of the process. Otherwise
// they are a mapping: after Close, or if the file is truncated, an access outside Store, Load
// and Guard kills the process.
func (m *Memory) Bytes() []byte { return m.data }

// Persist returns nil when the n octets at off, stored before the call, are durable, and the file
// is unchanged in size and name. Concurrent calls share one flush.
//
// The first error other than ErrRange and ErrClosed is final: every later call returns it,
// without a system call. After a failed fdatasync Linux marks the pages clean, so a second
// fdatasync would report success for lost data. Octets that were acknowledged before stay
// durable. Errors: ErrFailed with the cause; region.ErrRegionLost if the file was truncated or
// removed; region.ErrPinned if a system call has not returned within 60 seconds. That
// call may still take effect, and holds the memory (see Close). All callers get this
// error at the deadline, except the one in whose goroutine the call hangs, which gets it when the call
// returns.
func (m *Memory) Persist(off, n int) error { return m.PersistRanges([]region.Range{{Off: off, N: n}}) }

// PersistRanges is Persist for several ranges, with one flush. It borrows rs.
func (m *Memory) PersistRanges(rs []region.Range) error {
	if !region.AllWithin(rs, m.d.size) {
		return m.d.error("persist", ErrRange, nil)
	}
	if !m.fl.Enter() {
		return m.errClosed("persist")
	}
	defer m.fl.Leave()
	return m.fl.Persist(rs)
}

// Store copies p to the octets at off. Errors: ErrRange; ErrClosed; region.ErrRegionLost, which
// is final as with Persist.
func (m *Memory) Store(off int, p []byte) error {
	return m.guard("store", off, len(p), func() error {
		region.CopyUnseen(m.data[off:off+len(p)], p)
		return nil
	})
}

// Load copies the octets at off to p. Its errors are those of Store.
func (m *Memory) Load(p []byte, off int) error {
	return m.guard("load", off, len(p), func() error {
		region.CopyUnseen(p, m.data[off:off+len(p)])
		return nil
	})
}

// Guard runs f, as region.Guarded describes. Its own errors are those of Store. f must not call
// Close.
func (m *Memory) Guard(off, n int, f func() error) error { return m.guard("access", off, n, f) }

// guard runs f inside the gate, so that Close does not unmap what f is touching.
func (m *Memory) guard(op string, off, n int, f func() error) error {
	if !(region.Range{Off: off, N: n}).Within(m.d.size) {
		return &Error{Op: op, Path: m.d.path, Kind: ErrRange}
	}
	if !m.fl.Enter() {
		return m.errClosed(op)
	}
	defer m.fl.Leave()
	if m.kind == File {
		return f()
	}
	if err := m.fl.Err(); errors.Is(err, region.ErrRegionLost) {
		return err
	}
	at, err := catchFault(m.data, f)
	switch {
	case at != nil:
		return m.fl.lose(m.d.error(op, region.ErrRegionLost, at))
	case errors.Is(err, syscall.EFAULT):
		return m.fl.lose(m.d.error(op, region.ErrRegionLost, err))
	}
	return err
}

// faultError is a fault at octet Off of a mapping.
type faultError struct {
	Off int
	Err error // the runtime's error
}

// Error implements error.
func (e *faultError) Error() string { return fmt.Sprintf("fault at octet %d", e.Off) }

// Unwrap returns the runtime's error.
func (e *faultError) Unwrap() error { return e.Err }

// catchFault runs f and returns its error, or the fault if f faulted at an address in mem. It catches only
// faults in this goroutine, including those in the assembly of copy and of hash functions. Every
// other panic continues with the same value.
//
// Without it SIGBUS ends the process, and no recover helps: by default the runtime turns only
// faults near address 0 into panics.
func catchFault(mem []byte, f func() error) (at *faultError, err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		r := recover()
		if r == nil {
			return
		}
		off, ok := faultWithin(mem, r)
		if !ok {
			panic(r)
		}
		at = &faultError{Off: off, Err: r.(error)}
	}()
	return nil, f()
}

// faultWithin returns the offset in mem of the fault that the panic value r describes.
func faultWithin(mem []byte, r any) (off int, ok bool) {
	e, ok := r.(interface {
		runtime.Error
		Addr() uintptr
	})
	if !ok || len(mem) == 0 {
		return 0, false
	}
	base := uintptr(unsafe.Pointer(unsafe.SliceData(mem)))
	if d := e.Addr() - base; d < uintptr(len(mem)) {
		return int(d), true
	}
	return 0, false
}

// Failed returns a channel that is closed at the first final error.
func (m *Memory) Failed() <-chan struct{} { return m.fl.Failed() }

// Err returns the first final error, or nil.
func (m *Memory) Err() error { return m.fl.Err() }

func (m *Memory) errClosed(op string) error { return m.d.error(op, ErrClosed, nil) }

// Kind is a way to persist the octets of a file.
type Kind uint8

// The kinds; see the package comment for what each one costs and promises.
const (
	// File: a private shadow in memory, pwrite of exactly the range, fdatasync.
	File Kind = iota
	// Mmap: a shared mapping, msync of the pages that cover the range. Linux.
	Mmap
	// DAX: a mapping of persistent memory with MAP_SYNC, write-back of the cache lines
	// that cover the range. Linux on amd64; Open refuses it where the promise cannot be
	// proved.
	DAX
)

var kindNames = [...]string{File: "file", Mmap: "mmap", DAX: "dax"}

// String returns "file", "mmap" or "dax".
func (k Kind) String() string {
	if int(k) < len(kindNames) {
		return kindNames[k]
	}
	return fmt.Sprintf("Kind(%d)", uint8(k))
}

// Op names an operation of a memory, by its system call if there is one.
type Op string

// The operations.
const (
	OpOpen      Op = "open"       // syncing the file before its octets are trusted
	OpWrite     Op = "pwrite"     // pwrite
	OpDatasync  Op = "fdatasync"  // fdatasync
	OpDirectory Op = "fsync"      // fsync of the directory of a new file
	OpMsync     Op = "msync"      // msync
	OpWriteBack Op = "write back" // writing back cache lines of persistent memory
	OpRead      Op = "pread"      // pread of what the medium holds, for a Verify
	OpPersist   Op = "persist"    // a Persist of the crash model
)

// Hook makes operations fail or hang, in tests; package pmemtest has some. It is called before an operation, with its
// range, by several goroutines. If it returns an error, the operation is not executed and has that error. If it blocks,
// the operation hangs. A nil Hook does nothing.
type Hook func(op Op, off, n int) error

// Call calls h, unless that is nil.
func (h Hook) Call(op Op, off, n int) error {
	if h == nil {
		return nil
	}
	return h(op, off, n)
}

// Create creates the file of a memory of size octets, all zeros. It writes the zeros, so that
// every octet has its place on the medium: a hole could turn a later store into ENOSPC, which is
// a fault in a mapping. When Create returns nil, the file and its name are durable. After an
// error there is no file called path, unless the cause is fs.ErrExist. After a crash there is none,
// or all of it; a hidden file with another name may be left behind.
//
// Errors: ErrCreate with the cause, and ErrSize.
func Create(path string, size int, hook Hook) error {
	if size <= 0 {
		return &Error{Op: opCreate, Path: path, Kind: ErrSize, Err: &sizeError{got: int64(size), want: 1}}
	}
	if err := create(path, size, hook); err != nil {
		return &Error{Op: opCreate, Path: path, Kind: ErrCreate, Err: err}
	}
	return nil
}

// create fills a file with another name, and then links it to path, so that whoever opens path
// finds all of it.
func create(path string, size int, h Hook) error {
	if _, err := os.Lstat(path); err == nil {
		return os.ErrExist // now, before gigabytes are written; Link checks it again
	}
	dir, base := filepath.Split(path)
	f, err := os.CreateTemp(filepath.Clean(dir), "."+base+".new-*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	err = errors.Join(fill(&device{f: f, out: f, path: f.Name(), size: size, hook: h}), f.Close())
	if err != nil {
		return err
	}
	if err := os.Link(f.Name(), path); err != nil {
		return err
	}
	err = h.Call(OpDirectory, 0, 0)
	if err == nil {
		err = SyncDir(filepath.Clean(dir))
	}
	if err != nil {
		return errors.Join(err, os.Remove(path))
	}
	return nil
}

// fill writes the zeros and syncs.
func fill(d *device) error {
	zeros := make([]byte, min(d.size, 1<<20))
	for off := 0; off < d.size; off += len(zeros) {
		if err := d.write(zeros[:min(len(zeros), d.size-off)], off); err != nil {
			return err
		}
	}
	return d.datasync() // this syncs the size too, without which the data could not be read
}

// Open opens a file made by Create, and owns it until Close: the file is locked exclusively, so
// that a second Open fails with ErrLocked. The content of Bytes is then durable, in the sense that
// fdatasync has succeeded for it. The application's recovery has to find out whether it makes sense.
//
// Errors: ErrOpen with the cause, ErrLocked, ErrSize, and ErrRefused with the reason.
func Open(kind Kind, path string, hook Hook) (*Memory, error) {
	if int(kind) >= len(kindNames) {
		return nil, &Error{Op: "open", Path: path, Kind: ErrRefused, Err: errors.New("unknown kind " + kind.String())}
	}
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return nil, &Error{Op: "open", Path: path, Kind: ErrOpen, Err: cause(err)}
	}
	m, err := own(kind, f, hook)
	if err != nil {
		_ = f.Close() // nothing was written
		return nil, err
	}
	return m, nil
}

// own locks an open file and makes a Memory of it.
func own(kind Kind, f *os.File, hook Hook) (*Memory, error) {
	d := &device{f: f, out: f, path: f.Name(), hook: hook}
	if err := lock(f); err != nil {
		return nil, err
	}
	size, err := sizeOf(f)
	if err != nil {
		return nil, d.error("open", ErrSize, err)
	}
	d.size = size
	if err := d.settle(); err != nil {
		return nil, err
	}
	m := &Memory{kind: kind, d: d}
	c := FlusherConfig{Hung: func() error { return d.error("persist", region.ErrPinned, nil) }}
	switch kind {
	case Mmap:
		m.data, m.med, err = openMmap(d)
	case DAX:
		m.data, m.med, err = openDAX(d)
		c.Quick = hook == nil // a hook can hang
	default:
		m.data, m.med, err = openFile(d)
	}
	if err != nil {
		return nil, err
	}
	c.Commit = m.med.persist
	m.fl = NewFlusher(c)
	m.unread = d.unreadable(kind, m.med)
	if err := d.check(); err != nil { // replaced or truncated while we were opening it
		return nil, errors.Join(err, m.med.release(), d.release())
	}
	return m, nil
}

// sizeOf returns the size of f, which must be a regular file.
func sizeOf(f *os.File) (int, error) {
	fi, err := f.Stat()
	if err != nil {
		return 0, err
	}
	size := fi.Size()
	switch {
	case !fi.Mode().IsRegular():
		return 0, &fs.PathError{Op: "open", Path: f.Name(), Err: errors.New("not a regular file")}
	case size <= 0 || size > math.MaxInt-4096:
		return 0, errors.New("empty, or larger than memory")
	}
	return int(size), nil
}

// Close closes the file; it persists nothing. It refuses new calls at once, and waits for running
// ones. If one still runs after 10 seconds, Close returns region.ErrPinned, and the
// memory stays mapped and locked, because the call may still touch it; Close may then be called
// again. Otherwise Close is idempotent. It does not return a final error of Persist again.
func (m *Memory) Close() error {
	m.closeMu.Lock()
	defer m.closeMu.Unlock()
	if m.closed {
		return nil
	}
	if !m.fl.Close() {
		return m.d.error("close", region.ErrPinned, nil)
	}
	m.closed = true
	err := errors.Join(m.med.release(), m.d.release())
	if e := m.d.f.Close(); err == nil {
		err = e
	}
	if err != nil {
		return m.d.error("close", ErrClosed, cause(err))
	}
	return nil
}
