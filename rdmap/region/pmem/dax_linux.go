package pmem

import (
	"errors"
	"io"

	"github.com/stag-rdma/stag/rdmap/region"
	"golang.org/x/sys/unix"
)

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

func openDAX(d *device) (medium, error) {
	if _, err := lineWriteBack(); err != nil {
		return nil, d.error("open", ErrRefused, err)
	}
	data, err := mapShared(d, daxFlags)
	if errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.EINVAL) {
		return nil, d.error("mmap", ErrRefused, &daxError{err})
	}
	if err != nil {
		return nil, err
	}
	return &persistent{d: d, data: data}, nil
}

// daxError explains why MAP_SYNC was refused.
type daxError struct{ err error }

func (e *daxError) Error() string {
	return "no MAP_SYNC: the file is not on persistent memory in a file system mounted with -o dax"
}

func (e *daxError) Unwrap() error { return e.err }

func (p *persistent) bytes() []byte  { return p.data }
func (p *persistent) quick() bool    { return p.d.hooks == nil } // a hook can hang
func (p *persistent) release() error { return unix.Munmap(p.data) }

// readBack takes the lines out of the caches, so that they are loaded from the medium.
func (p *persistent) readBack(w io.Writer, off, n int) error {
	a, _ := pieces.Get().(*aligned)
	defer pieces.Put(a)
	for n > 0 {
		b := a.octets()[:min(n, piece)]
		err := p.d.hooks.Call(OpRead, off, len(b))
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
	if err := p.d.hooks.Call(OpWriteBack, r.Off, r.N); err != nil {
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
