package pmem

import (
	"errors"
	"os"

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
	hooks *Hooks
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
	err := d.hooks.Call(OpWrite, off, len(p))
	if err == nil {
		_, err = d.out.WriteAt(p, int64(off))
	}
	if err != nil {
		return d.error("pwrite", ErrFailed, cause(err))
	}
	return nil
}

func (d *device) datasync() error {
	err := d.hooks.Call(OpDatasync, 0, d.size)
	if err == nil {
		err = datasync(d.out)
	}
	if err != nil {
		return d.error("fdatasync", ErrFailed, cause(err))
	}
	return nil
}

// writeSync is write and datasync, in one system call where there is one for both. With hooks they
// are separate, so that either can fail. It is called by one goroutine at a time.
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
	err := d.hooks.Call(OpOpen, 0, d.size)
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
