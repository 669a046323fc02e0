package dir

import (
	"errors"
	"time"
	"unsafe"

	"github.com/stag-rdma/stag/nfsdemo/backend"
	"github.com/stag-rdma/stag/nfsdemo/nfs3"
	"golang.org/x/sys/unix"
)

var _ backend.Quoter = (*FS)(nil)

// dqblk is struct if_dqblk of linux/quota.h.
type dqblk struct {
	HardBlocks, SoftBlocks uint64 // of 1024 octets
	Bytes                  uint64
	HardFiles, SoftFiles   uint64
	Files                  uint64
	BytesTill, FilesTill   uint64 // seconds of Unix time
	Valid                  uint32
	_                      uint32
}

// Quota implements backend.Quoter. The kernel tells it to root only, or about oneself. Before Linux 5.14 there is no call that
// needs no name of a device.
func (f *FS) Quota(group bool, id uint32) (backend.Quota, error) {
	const getQuota, perType = 0x800007, 8
	typ := uintptr(0)
	if group {
		typ = 1
	}
	var d dqblk
	_, _, e := unix.Syscall6(unix.SYS_QUOTACTL_FD, uintptr(f.top.fd), getQuota<<perType|typ, uintptr(id), uintptr(unsafe.Pointer(&d)), 0, 0)
	switch {
	case errors.Is(e, unix.EPERM):
		return backend.Quota{}, nfs3.ErrPerm
	case e != 0: // ESRCH: none are on; ENOSYS of the kernel, or of the file system
		return backend.Quota{}, nfs3.ErrNotSupp
	}
	till := func(t uint64) time.Time {
		if t == 0 {
			return time.Time{}
		}
		return time.Unix(int64(t), 0)
	}
	return backend.Quota{
		Bytes: d.Bytes, SoftBytes: d.SoftBlocks << 10, HardBytes: d.HardBlocks << 10,
		Files: d.Files, SoftFiles: d.SoftFiles, HardFiles: d.HardFiles,
		BytesTill: till(d.BytesTill), FilesTill: till(d.FilesTill),
	}, nil
}
