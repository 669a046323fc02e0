package dir

import (
	"github.com/stag-rdma/stag/nfsdemo/nfs3"
	"golang.org/x/sys/unix"
)

// The calls below take a directory and one component; the kernel follows no link in the last
// component of any of them.

func unlinkAt(d *openDir, name string) error { return unix.Unlinkat(int(d.f.Fd()), name, 0) }

func rmdirAt(d *openDir, name string) error {
	return unix.Unlinkat(int(d.f.Fd()), name, unix.AT_REMOVEDIR)
}

func symlinkAt(d *openDir, target, name string) error {
	return unix.Symlinkat(target, int(d.f.Fd()), name)
}

// mknodAt makes a special file that nobody but its owner can use yet.
func mknodAt(d *openDir, name string, t nfs3.FileType, dev nfs3.Device) error {
	mode, number := uint32(0o600), 0
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
	case nfs3.TypeReg, nfs3.TypeDir, nfs3.TypeLnk:
		return nfs3.ErrBadType
	}
	return unix.Mknodat(int(d.f.Fd()), name, mode, number)
}

func (f *FS) renameAt(src *openDir, from string, dst *openDir, name string, _ *stat) error {
	return unix.Renameat(int(src.f.Fd()), from, int(dst.f.Fd()), name)
}

func (f *FS) linkAt(d *openDir, old string, to *openDir, name string) error {
	return unix.Linkat(int(d.f.Fd()), old, int(to.f.Fd()), name, 0)
}
