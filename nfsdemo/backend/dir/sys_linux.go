package dir

import (
	"os"

	"github.com/stag-rdma/stag/nfsdemo/backend"
	"github.com/stag-rdma/stag/nfsdemo/nfs3"
	"golang.org/x/sys/unix"
)

// openFlags prevent an open from following a link and from waiting for the other end of a pipe.
// They also allow files above 2 GiB on 32-bit machines, which os.Root does not ask for.
const openFlags = unix.O_NOFOLLOW | unix.O_NONBLOCK | unix.O_LARGEFILE

// sysFS is the state of the system layer.
type sysFS struct {
	dev     uint64 // of the export's root
	noBirth bool   // birth times cannot be trusted
}

// init looks at the file system of the root.
func (s *sysFS) init(root *os.File, _ string) error {
	var st unix.Statx_t
	if err := statx(int(root.Fd()), "", unix.AT_EMPTY_PATH, &st); err != nil {
		return err
	}
	s.dev = unix.Mkdev(st.Dev_major, st.Dev_minor)
	var fs unix.Statfs_t
	if err := unix.Fstatfs(int(root.Fd()), &fs); err != nil {
		return err
	}
	// The first write to a file of a lower layer copies it, and the copy has a new birth time.
	s.noBirth = int64(fs.Type) == unix.OVERLAYFS_SUPER_MAGIC //nolint:unconvert // another type on other machines
	return nil
}

func isRoot() bool { return os.Geteuid() == 0 }

// statAt looks at a name in a directory; links are not followed.
func (f *FS) statAt(d *openDir, name string) (stat, error) {
	var st unix.Statx_t
	err := statx(int(d.f.Fd()), name, unix.AT_SYMLINK_NOFOLLOW|unix.AT_NO_AUTOMOUNT, &st)
	if err != nil {
		return stat{}, status(err)
	}
	return f.sys.stat(&st), nil
}

// statOpen looks at an open file.
func (f *FS) statOpen(file *os.File, _ key) (stat, error) { return f.statFD(int(file.Fd())) }

func (f *FS) statFD(fd int) (stat, error) {
	var st unix.Statx_t
	if err := statx(fd, "", unix.AT_EMPTY_PATH, &st); err != nil {
		return stat{}, status(err)
	}
	return f.sys.stat(&st), nil
}

// newKey is not needed here: statOpen reads the identity.
func (f *FS) newKey(*openDir, string) key { return key{} }

// Now reads the clock from which the kernel takes the times of inodes. It lags behind time.Now.
func (f *FS) Now() int64 {
	var t unix.Timespec
	if unix.ClockGettime(unix.CLOCK_REALTIME_COARSE, &t) != nil {
		return 0
	}
	return t.Nano()
}

func statx(fd int, name string, flags int, st *unix.Statx_t) error {
	return unix.Statx(fd, name, flags, unix.STATX_BASIC_STATS|unix.STATX_BTIME, st)
}

// stat converts the answer of the kernel.
func (s *sysFS) stat(x *unix.Statx_t) stat {
	dev := unix.Mkdev(x.Dev_major, x.Dev_minor)
	st := stat{key: key{dev: dev, ino: x.Ino}, attr: nfs3.Attr{
		Type: typeOf(x.Mode), Mode: uint32(x.Mode) & 0o7777, Nlink: x.Nlink, UID: x.Uid, GID: x.Gid,
		Size: x.Size, Used: x.Blocks * 512, Rdev: nfs3.Device{Major: x.Rdev_major, Minor: x.Rdev_minor},
		FSID: dev, FileID: x.Ino, Atime: timeOf(&x.Atime), Mtime: timeOf(&x.Mtime), Ctime: timeOf(&x.Ctime),
	}}
	if dev == s.dev {
		st.key.dev = 0
	}
	if x.Mask&unix.STATX_BTIME != 0 && !s.noBirth {
		st.key.birth = x.Btime.Sec*1e9 + int64(x.Btime.Nsec)
	}
	return st
}

func timeOf(t *unix.StatxTimestamp) nfs3.Time { return nfs3.UnixTime(t.Sec, int64(t.Nsec)) }

func typeOf(mode uint16) nfs3.FileType {
	switch mode & unix.S_IFMT {
	case unix.S_IFDIR:
		return nfs3.TypeDir
	case unix.S_IFLNK:
		return nfs3.TypeLnk
	case unix.S_IFBLK:
		return nfs3.TypeBlk
	case unix.S_IFCHR:
		return nfs3.TypeChr
	case unix.S_IFIFO:
		return nfs3.TypeFIFO
	case unix.S_IFSOCK:
		return nfs3.TypeSock
	}
	return nfs3.TypeReg
}

// usage returns the counts of octets and files.
func usage(root *os.File) (backend.Usage, error) {
	var st unix.Statfs_t
	if err := unix.Fstatfs(int(root.Fd()), &st); err != nil {
		return backend.Usage{}, err
	}
	unit := uint64(st.Frsize)
	if unit == 0 {
		unit = uint64(st.Bsize)
	}
	return backend.Usage{
		TotalBytes: st.Blocks * unit, FreeBytes: st.Bfree * unit, AvailBytes: st.Bavail * unit,
		TotalFiles: st.Files, FreeFiles: st.Ffree, AvailFiles: st.Ffree,
	}, nil
}

func datasync(f *os.File) error { return unix.Fdatasync(int(f.Fd())) }
