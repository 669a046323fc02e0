package pmem

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/stag-rdma/stag/rdmap/region"
	"golang.org/x/sys/unix"
)

// mapping is the medium of Mmap: the pages of the file themselves. Stores may reach the file at any
// time; after Persist they have.
type mapping struct {
	d    *device
	data []byte
}

func openMmap(d *device) ([]byte, medium, error) {
	data, err := mapShared(d, unix.MAP_SHARED)
	return data, &mapping{d: d, data: data}, err
}

// mapShared maps the whole file. It refuses a file with holes.
func mapShared(d *device, flags int) ([]byte, error) {
	at, err := hole(d.f, d.size)
	if err == nil && at < int64(d.size) {
		err = fmt.Errorf("hole at octet %d: a store there could fault for lack of space", at)
	}
	if err != nil {
		return nil, d.error("open", ErrRefused, err)
	}
	data, err := unix.Mmap(int(d.f.Fd()), 0, d.size, unix.PROT_READ|unix.PROT_WRITE, flags)
	if err != nil {
		return nil, d.error("mmap", ErrRefused, err)
	}
	return data, nil
}

func (m *mapping) release() error { return unix.Munmap(m.data) }

// readBack reads the file past the page cache: the kernel writes changed pages of that range first.
func (m *mapping) readBack(w io.Writer, off, n int) error { return m.d.readBack(w, off, n) }

// persist checks the size at the end: msync of pages beyond the end of a truncated file reports
// success.
func (m *mapping) persist(rs []region.Range) error {
	for _, r := range cover(rs, os.Getpagesize(), m.d.size) {
		if err := m.msync(r); err != nil {
			return err
		}
	}
	return m.d.check()
}

func (m *mapping) msync(r region.Range) error {
	err := m.d.hook.Call(OpMsync, r.Off, r.N)
	for err == nil {
		err = unix.Msync(m.data[r.Off:r.Off+r.N], unix.MS_SYNC)
		if !errors.Is(err, unix.EINTR) {
			break
		}
		err = nil
	}
	if err != nil {
		return m.d.error("msync", ErrFailed, err)
	}
	return nil
}

// persistent is the medium of DAX: persistent memory itself, without the page cache.
type persistent struct {
	d    *device
	data []byte
}

// daxFlags are the flags of the mapping. MAP_SYNC is the proof: the kernel grants it only on
// synchronous persistent memory, and then keeps the metadata of the file durable by itself, so
// that data is durable once it has left the caches of the processor. MAP_SHARED_VALIDATE makes
// kernels and file systems that do not know MAP_SYNC refuse it. Tests on machines without
// persistent memory replace the flags.
var daxFlags = unix.MAP_SHARED_VALIDATE | unix.MAP_SYNC

// lineWriteBack returns the instruction that writes lines back. Tests replace it too.
var lineWriteBack = lineInstruction

func openDAX(d *device) ([]byte, medium, error) {
	if _, err := lineWriteBack(); err != nil {
		return nil, nil, d.error("open", ErrRefused, err)
	}
	data, err := mapShared(d, daxFlags)
	if errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.EINVAL) {
		err = d.error("mmap", ErrRefused, &daxError{err})
	}
	return data, &persistent{d: d, data: data}, err
}

// daxError explains why MAP_SYNC was refused.
type daxError struct{ err error }

func (e *daxError) Error() string {
	return "no MAP_SYNC: the file is not on persistent memory in a file system mounted with -o dax"
}

func (e *daxError) Unwrap() error { return e.err }

func (p *persistent) release() error { return unix.Munmap(p.data) }

// readBack takes the lines out of the caches, so that they are loaded from the medium.
func (p *persistent) readBack(w io.Writer, off, n int) error {
	a, _ := pieces.Get().(*aligned)
	defer pieces.Put(a)
	for n > 0 {
		b := a.octets()[:min(n, piece)]
		err := p.d.hook.Call(OpRead, off, len(b))
		if err != nil {
			return p.d.error("read back", ErrUnread, err)
		}
		at, _ := catchFault(p.data, func() error {
			evictLines(p.data[off : off+len(b)])
			copy(b, p.data[off:])
			return nil
		})
		if at != nil {
			return p.d.error("read back", region.ErrRegionLost, at)
		}
		if _, err := w.Write(b); err != nil {
			return err
		}
		off, n = off+len(b), n-len(b)
	}
	return nil
}

// persist writes back the lines of rs. That touches them, so it can fault.
func (p *persistent) persist(rs []region.Range) error {
	for _, r := range cover(rs, lineSize, p.d.size) {
		if err := p.writeBack(r); err != nil {
			return err
		}
	}
	return p.d.check()
}

func (p *persistent) writeBack(r region.Range) error {
	if err := p.d.hook.Call(OpWriteBack, r.Off, r.N); err != nil {
		return p.d.error("write back", ErrFailed, err)
	}
	at, err := catchFault(p.data, func() error {
		writeBackLines(p.data[r.Off : r.Off+r.N])
		return nil
	})
	if at != nil {
		return p.d.error("write back", region.ErrRegionLost, at)
	}
	return err
}
