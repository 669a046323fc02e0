package pmem

import (
	"cmp"
	"errors"
	"io"
	"os"
	"sync"

	"github.com/stag-rdma/stag/rdmap/region"
)

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

var _ region.ReadBacker = (*Memory)(nil)

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
		err := d.hooks.Call(OpRead, off, want-skip)
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
