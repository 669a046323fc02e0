package dir

import (
	"os"

	"github.com/stag-rdma/stag/nfsdemo/nfs3"
	"golang.org/x/sys/unix"
)

// The calls below take a directory and one component; the kernel follows no link in the last
// component of any of them.

// modeAtOnce says that the calls that make files give them their modes, of which the umask of the process and
// a default ACL take their part.
const modeAtOnce = true

func unlinkAt(d gripRef, name string) error { return unix.Unlinkat(d.fd, name, 0) }

func rmdirAt(d gripRef, name string) error { return unix.Unlinkat(d.fd, name, unix.AT_REMOVEDIR) }

func symlinkAt(d gripRef, target, name string) error { return unix.Symlinkat(target, d.fd, name) }

func mkdirAt(d gripRef, name string, mode uint32) error { return unix.Mkdirat(d.fd, name, mode) }

// createAt makes a regular file, and opens it to be written.
func createAt(d gripRef, name string, mode uint32) (*os.File, error) {
	const flags = unix.O_WRONLY | unix.O_CREAT | unix.O_EXCL | unix.O_NOFOLLOW | unix.O_NONBLOCK | unix.O_LARGEFILE | unix.O_CLOEXEC
	fd, err := openat(d.fd, name, flags, mode)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), name), nil
}

func mknodAt(d gripRef, name string, t nfs3.FileType, mode uint32, dev nfs3.Device) error {
	number := 0
	switch t {
	case nfs3.TypeFIFO:
		mode |= unix.S_IFIFO
	case nfs3.TypeSock:
		mode |= unix.S_IFSOCK
	case nfs3.TypeChr, nfs3.TypeBlk:
		mode |= unix.S_IFCHR
		if t == nfs3.TypeBlk {
			mode = mode&^unix.S_IFMT | unix.S_IFBLK
		}
		number = int(unix.Mkdev(dev.Major, dev.Minor))
	default:
		return nfs3.ErrBadType
	}
	return unix.Mknodat(d.fd, name, mode, number)
}

func (f *FS) renameAt(src gripRef, from string, dst gripRef, name string, _ *stat) error {
	return unix.Renameat(src.fd, from, dst.fd, name)
}

func (f *FS) linkAt(g, to gripRef, name string) error {
	return unix.Linkat(unix.AT_FDCWD, procName(g.fd), to.fd, name, unix.AT_SYMLINK_FOLLOW)
}
