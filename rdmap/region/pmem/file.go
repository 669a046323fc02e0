package pmem

import (
	"cmp"
	"errors"
	"io"
	"os"
	"slices"
	"sync"
	"unsafe"

	"github.com/stag-rdma/stag/rdmap/region"
)

// device is the file under a memory. Each system call on it is made in one place, after its hook.
type device struct {
	f     *os.File
	out   *os.File // for writing: f, or the same file opened past the page cache
	in    *os.File // for reading back: the same file opened once more; nil if that is impossible
	cold  bool     // in bypasses the page cache
	path  string
	size  int // octets when it was opened
	hook  Hook
	split bool // the system has no single call for writeSync
}

// maxDirect is the size in octets up to which a memory is written past the page cache. That needs a
// second copy, which, unlike one in the page cache, is not given up when memory is short.
const maxDirect = 64 << 20

// direct makes later writes bypass the page cache, if the file system allows that, and reports
// whether they do. They must then be of whole blocks, from memory aligned to blocks. It opens the
// same file even if path names another one by now. An error of such a write is reported to its
// caller, and to nobody else.
func (d *device) direct() bool {
	if d.size%block != 0 || d.size > maxDirect || !takesDirect(d.f) {
		return false
	}
	out, err := reopen(d.f, os.O_WRONLY, true)
	if err != nil {
		return false
	}
	d.out = out
	return true
}

// release closes what direct and openIn have opened.
func (d *device) release() error {
	var err error
	if d.out != d.f {
		err = d.out.Close()
	}
	if d.in != nil {
		err = errors.Join(err, d.in.Close())
	}
	return err
}

func (d *device) error(op string, kind, err error) error {
	return &Error{Op: op, Path: d.path, Kind: kind, Err: err}
}

// write is pwrite of all of p.
func (d *device) write(p []byte, off int) error {
	err := d.hook.Call(OpWrite, off, len(p))
	if err == nil {
		_, err = d.out.WriteAt(p, int64(off))
	}
	if err != nil {
		return d.error("pwrite", ErrFailed, cause(err))
	}
	return nil
}

func (d *device) datasync() error {
	err := d.hook.Call(OpDatasync, 0, d.size)
	if err == nil {
		err = datasync(d.out)
	}
	if err != nil {
		return d.error("fdatasync", ErrFailed, cause(err))
	}
	return nil
}

// writeSync is write and datasync, in one system call where there is one for both. With a hook they
// are separate, so that either can fail. It is called by one goroutine at a time.
func (d *device) writeSync(p []byte, off int) error {
	if !d.split && d.hook == nil {
		n, err := writeSync(d.out, p, off)
		switch {
		case err != nil:
			return d.error("pwritev2", ErrFailed, err)
		case n == len(p):
			return nil
		}
		d.split = true
	}
	if err := d.write(p, off); err != nil {
		return err
	}
	return d.datasync()
}

// check returns ErrRegionLost unless the file is as long as it was and still has a name: octets
// beyond its end, or in a file that nobody will find again, are not durable, whatever the system
// calls returned.
func (d *device) check() error {
	size, named, err := stat(d.f)
	switch {
	case err != nil:
		return d.error("fstat", region.ErrRegionLost, cause(err))
	case size != int64(d.size):
		return d.error("fstat", region.ErrRegionLost, &sizeError{got: size, want: int64(d.size)})
	case !named:
		return d.error("fstat", region.ErrRegionLost, os.ErrNotExist)
	}
	return nil
}

// settle makes sure that what is read from the file from now on is durable. The page cache may hold
// octets that the medium does not hold. If the process that wrote them was killed before its
// fdatasync, a sync cures that. If its fdatasync failed, Linux has marked them clean, and recovery
// must not build on them: they are dropped, so that the medium is read.
func (d *device) settle() error {
	err := d.hook.Call(OpOpen, 0, d.size)
	if err == nil {
		err = datasync(d.f)
	}
	if err == nil {
		err = dropCache(d.f)
	}
	if err != nil {
		return d.error("settle", ErrOpen, cause(err))
	}
	return nil
}

// medium is what differs between the kinds. persist is called by one goroutine at a time, except for DAX without
// a hook: there it makes no system call that could hang, no failure can be reported to the wrong caller, and any
// goroutine may call it.
type medium interface {
	persist(rs []region.Range) error
	readBack(w io.Writer, off, n int) error
	release() error
}

// shadow is the medium of File: peers reach a copy of the file. So the kernel writes only what
// Persist names, and no truncation can make an access to the copy fault.
//
// If the file accepts writes past the page cache, they are of whole blocks. Choice: the blocks come
// from a second copy, which holds what the file holds. So the file still gets only what Persist
// names, and nobody changes octets that the disk is reading. Otherwise the page cache is that second
// copy.
type shadow struct {
	d    *device
	data []byte
	file []byte // what the file holds, aligned to blocks; nil without direct writes
}

func openFile(d *device) ([]byte, medium, error) {
	// With at least the capacity of a line, even a small memory is aligned for atomics.
	s := &shadow{d: d, data: make([]byte, d.size, max(d.size, 64))}
	if _, err := io.ReadFull(io.NewSectionReader(d.f, 0, int64(d.size)), s.data); err != nil {
		return nil, nil, d.error("pread", ErrOpen, cause(err))
	}
	if d.direct() {
		s.file = blocks(d.size)
		copy(s.file, s.data)
		_ = dropCache(d.f) // it would only take time to keep it right
	}
	return s.data, s, nil
}

// blocks returns n octets that begin at a multiple of block.
func blocks(n int) []byte {
	b := make([]byte, n+block)
	at := int(-uintptr(unsafe.Pointer(unsafe.SliceData(b))) % block)
	return b[at : at+n : at+n]
}

func (s *shadow) release() error { return nil }

func (s *shadow) readBack(w io.Writer, off, n int) error { return s.d.readBack(w, off, n) }

// persist writes rs. If its last range ends with the file, it checks the size before writing too: a
// pwrite there would make a truncated file as long as it was, with a hole in it. Any other pwrite
// leaves a truncated file too short, which the check at the end finds.
func (s *shadow) persist(rs []region.Range) error {
	rs = cover(rs, 1, s.d.size)
	from := s.data
	if s.file != nil {
		for _, r := range rs {
			region.CopyUnseen(s.file[r.Off:r.Off+r.N], s.data[r.Off:r.Off+r.N])
		}
		rs, from = cover(rs, block, s.d.size), s.file
	}
	if k := len(rs); k > 0 && rs[k-1].Off+rs[k-1].N == s.d.size {
		if err := s.d.check(); err != nil {
			return err
		}
	}
	for _, r := range rs {
		b := from[r.Off : r.Off+r.N]
		if region.RaceDetector && s.file == nil { // the system call reports its accesses
			b = make([]byte, r.N)
			region.CopyUnseen(b, s.data[r.Off:r.Off+r.N])
		}
		var err error
		if len(rs) == 1 {
			err = s.d.writeSync(b, r.Off)
		} else {
			err = s.d.write(b, r.Off)
		}
		if err != nil {
			return err
		}
	}
	if len(rs) > 1 {
		if err := s.d.datasync(); err != nil {
			return err
		}
	}
	return s.d.check()
}

// lineSize is the size of a cache line in octets, on the processors that this package knows.
const lineSize = 64

// cover returns the smallest number of disjoint ranges that cover rs, ascending, with ends at
// multiples of unit or at size. With unit 1 they hold exactly the octets of rs. It overwrites rs.
func cover(rs []region.Range, unit, size int) []region.Range {
	slices.SortFunc(rs, func(a, b region.Range) int { return cmp.Compare(a.Off, b.Off) })
	out := rs[:0]
	for _, r := range rs {
		if r.N == 0 {
			continue
		}
		end := r.Off + r.N
		if rest := end % unit; rest != 0 {
			end = min(end-rest+unit, size)
		}
		off := r.Off - r.Off%unit
		if k := len(out) - 1; k >= 0 && off <= out[k].Off+out[k].N {
			out[k].N = max(out[k].N, end-out[k].Off)
			continue
		}
		out = append(out, region.Range{Off: off, N: end - off})
	}
	return out
}

// piece is how many octets are read back at once: enough that a disk is busy with reading.
const piece = 256 << 10

var pieces = sync.Pool{New: func() any { return new(aligned) }}

// aligned is memory for direct reads.
type aligned struct{ b []byte }

func (a *aligned) octets() []byte {
	if a.b == nil {
		a.b = blocks(piece)
	}
	return a.b
}

// ReadBack implements region.ReadBacker: it reads the file from the medium, not from the copy that
// peers write to, nor from the page cache. What lies below the file system counts as the medium: the
// cache of a disk, or a file server. For DAX the lines leave the caches of the processor first.
//
// Errors: ErrRange; ErrClosed; the first final error; ErrUnread with the cause, such as EIO;
// region.ErrNotVerifiable; region.ErrRegionLost, which is final, if the file was truncated or removed.
// A system call that hangs holds the caller and the memory (see Close).
func (m *Memory) ReadBack(w io.Writer, off, n int) error {
	if !(region.Range{Off: off, N: n}).Within(m.d.size) {
		return &Error{Op: "read back", Path: m.d.path, Kind: ErrRange}
	}
	if !m.fl.Enter() {
		return m.errClosed("read back")
	}
	defer m.fl.Leave()
	if err := cmp.Or(m.fl.Err(), m.unread); err != nil {
		return err
	}
	err := m.med.readBack(w, off, n)
	if e := m.d.check(); e != nil { // also if there were octets: they are of a file that is gone
		err = e
	}
	if errors.Is(err, region.ErrRegionLost) {
		return m.fl.lose(err)
	}
	return err
}

// Verifiable implements region.ReadBacker. It was found out when the memory was opened.
func (m *Memory) Verifiable() error { return m.unread }

// openIn opens the file once more for reading back, past the page cache where the file system supports
// that.
func (d *device) openIn() (err error) {
	d.cold = takesDirect(d.f)
	d.in, err = reopen(d.f, os.O_RDONLY, d.cold)
	if err != nil && d.cold {
		d.cold = false
		d.in, err = reopen(d.f, os.O_RDONLY, false)
	}
	return err
}

// unreadable returns why the medium cannot be read back, by trying it.
func (d *device) unreadable(kind Kind, med medium) error {
	err := d.openIn()
	switch {
	case kind == DAX:
		return nil
	case err == nil && kind == Mmap && !d.cold:
		err = errors.New("the mapping keeps it in the page cache, and the file system has no direct reads")
	case err == nil:
		err = med.readBack(io.Discard, 0, 1)
	}
	if err == nil || errors.Is(err, region.ErrNotVerifiable) {
		return err
	}
	return d.error("read back", region.ErrNotVerifiable, cause(err))
}

// readBack reads the file.
func (d *device) readBack(w io.Writer, off, n int) error {
	if !d.cold {
		if err := d.cool(off, n); err != nil {
			return err
		}
	}
	a, _ := pieces.Get().(*aligned)
	defer pieces.Put(a)
	for n > 0 {
		b := a.octets()
		skip := off % block // direct reads are of whole blocks
		want := min(skip+n, len(b))
		b = b[:min((want+block-1)/block*block, len(b))]
		err := d.hook.Call(OpRead, off, want-skip)
		if err == nil {
			err = d.pread(b, want, off-skip)
		}
		if err != nil {
			return d.error("pread", ErrUnread, cause(err))
		}
		if _, err := w.Write(b[skip:want]); err != nil {
			return err
		}
		off, n = off+want-skip, n-(want-skip)
	}
	return nil
}

// pread reads at least the first want octets of b. The last block of the file may be short.
func (d *device) pread(b []byte, want, off int) error {
	for got := 0; got < want; {
		n, err := pread(d.in, b[got:], off+got)
		switch {
		case err != nil:
			return err
		case n == 0:
			return io.ErrUnexpectedEOF
		}
		got += n
	}
	return nil
}

// cool makes sure that the page cache does not hold the n octets at off, so that they are read from
// the medium. It refuses if they stay there, as on tmpfs, which has nothing else, or if another process
// has mapped them. Pages that somebody has changed are written first.
func (d *device) cool(off, n int) error {
	warm, err := d.drop(off, n)
	if err == nil && warm {
		if err = datasync(d.in); err == nil {
			warm, err = d.drop(off, n)
		}
	}
	switch {
	case err != nil:
		return d.error("read back", ErrUnread, cause(err))
	case warm:
		return d.error("read back", region.ErrNotVerifiable, errWarm)
	}
	return nil
}

var errWarm = errors.New("the page cache keeps it: a file system in memory, or a file that others have mapped")

func (d *device) drop(off, n int) (warm bool, err error) {
	if err := dropCache(d.in); err != nil {
		return true, err
	}
	return cached(d.in, off, n)
}
