//go:build !race

package vec

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

func (w *Writer) writev(fd int, vec [][]byte) (int, error) {
	iov := w.iov[:0]
	for _, p := range vec {
		if len(p) == 0 {
			continue
		}
		v := unix.Iovec{Base: &p[0]}
		v.SetLen(len(p))
		iov = append(iov, v)
	}
	if len(iov) == 0 {
		return 0, nil
	}
	w.iov = iov
	defer clear(iov)
	for {
		n, _, errno := unix.Syscall(unix.SYS_WRITEV, uintptr(fd), uintptr(unsafe.Pointer(&iov[0])), uintptr(len(iov)))
		if errno == 0 {
			return int(n), nil
		}
		if errno != unix.EINTR {
			return 0, errno
		}
	}
}
