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

func openMmap(d *device) (medium, error) {
	data, err := mapShared(d, unix.MAP_SHARED)
	if err != nil {
		return nil, err
	}
	return &mapping{d: d, data: data}, nil
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

func (m *mapping) bytes() []byte  { return m.data }
func (m *mapping) quick() bool    { return false }
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
	err := m.d.hooks.Call(OpMsync, r.Off, r.N)
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
