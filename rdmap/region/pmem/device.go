package pmem

import (
	"os"

	"github.com/stag-rdma/stag/rdmap/region"
	"github.com/stag-rdma/stag/rdmap/region/pmem/internal/hook"
)

// device is the file under a memory: each system call in one place, behind the hooks.
type device struct {
	f     *os.File
	out   *os.File // what is written to: f, or the same file past the page cache
	path  string
	size  int // octets at opening
	hooks *hook.Hooks
	split bool // the system has no single call for writeSync
}

// maxDirect is how large a memory may be, octets, that is written past the page cache: it
// needs a second copy, and the page cache would give its own up when memory is short.
const maxDirect = 64 << 20

// direct makes what is written from now on go past the page cache, in whole blocks from
// memory aligned to them, and reports whether it does. It is the same file whatever its
// name means now. An error of such a write is told to its caller and to nobody else.
func (d *device) direct() bool {
	if d.size%block != 0 || d.size > maxDirect || !takesDirect(d.f) {
		return false
	}
	out, err := reopenDirect(d.f)
	if err != nil {
		return false
	}
	d.out = out
	return true
}

// release ends that.
func (d *device) release() error {
	if d.out == d.f {
		return nil
	}
	return d.out.Close()
}

func (d *device) error(op string, kind, err error) error {
	return &Error{Op: op, Path: d.path, Kind: kind, Err: err}
}

// write is pwrite of all of p.
func (d *device) write(p []byte, off int) error {
	err := d.hooks.Call(hook.Write, off, len(p))
	if err == nil {
		_, err = d.out.WriteAt(p, int64(off))
	}
	if err != nil {
		return d.error("pwrite", ErrFailed, cause(err))
	}
	return nil
}

func (d *device) datasync() error {
	err := d.hooks.Call(hook.Datasync, 0, d.size)
	if err == nil {
		err = datasync(d.out)
	}
	if err != nil {
		return d.error("fdatasync", ErrFailed, cause(err))
	}
	return nil
}

// writeSync is write and datasync, in one system call where there is one for it. With
// hooks they come one by one, so that either can fail. It is called by one goroutine at a
// time.
func (d *device) writeSync(p []byte, off int) error {
	if !d.split && d.hooks == nil {
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

// check returns ErrRegionLost unless the file is as long as it was, and still has a
// name: octets beyond its end, or of a file that no opener will find again, are not
// durable, whatever the system calls answered.
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

// settle makes what is read from the file from now on durable. The cache of the system
// may hold octets that the medium does not: of a process that was killed before its
// fdatasync, which a sync cures, or of one whose fdatasync failed, after which Linux
// calls them clean. Recovery must not build on those: they are dropped, so that the
// medium is asked.
func (d *device) settle() error {
	err := d.hooks.Call(hook.Open, 0, d.size)
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
