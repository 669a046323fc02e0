package dir

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"strconv"
	"time"
	"unsafe"

	"github.com/stag-rdma/stag/nfsdemo/backend"
	"github.com/stag-rdma/stag/nfsdemo/nfs3"
	"golang.org/x/sys/unix"
)

// sysFS is the state of the system layer.
type sysFS struct {
	dev     uint64 // of the export's root
	noBirth bool   // birth times cannot be trusted

	pin        int    // the root in the mount that others see, which nobody can unmount meanwhile; 0: none
	flags      int64  // of that mount
	mountpoint string // where it begins

	handled bool  // the file system has handles, and this process may open them
	fids    bool  // it has none that can be opened, but they tell its files apart
	private bool  // mount is of a copy of the mount that nothing else sees
	mount   int   // the root, opened to be read, so that handles can be opened; 0: it cannot be read
	mountID int32 // of the mount
	lacks   string
	ends    string // with what handles end; "": they last
}

// begin opens the root, and looks what the file system can do.
func (f *FS) begin(path string) error {
	s := &f.sys
	if err := mounted(f.cfg.Mountpoint); err != nil {
		return err
	}
	pin, err := openat(unix.AT_FDCWD, path, unix.O_PATH|unix.O_CLOEXEC|unix.O_DIRECTORY, 0)
	if err != nil {
		return &os.PathError{Op: "open", Path: path, Err: err}
	}
	s.pin = pin
	// Files are opened by their names there. Without it, most of them would be stale.
	if _, err := os.Readlink(procName(pin)); err != nil {
		return fmt.Errorf("%s: files are opened by way of /proc, which is not mounted here: mount -t proc proc /proc (%w)", path, err)
	}
	if s.mountpoint, err = mountpointOf(path); err != nil {
		return err
	}
	fd, err := unix.OpenTree(pin, "", unix.AT_EMPTY_PATH|unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
	s.private = err == nil
	if err != nil {
		if fd, err = openat(pin, ".", unix.O_PATH|unix.O_CLOEXEC|unix.O_DIRECTORY, 0); err != nil {
			return &os.PathError{Op: "open", Path: path, Err: err}
		}
	}
	f.top = &grip{fd: fd, node: f.root}
	var st unix.Statx_t
	if err := statx(fd, "", unix.AT_EMPTY_PATH, &st); err != nil {
		return err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFDIR {
		return &os.PathError{Op: "open", Path: path, Err: unix.ENOTDIR}
	}
	s.dev = unix.Mkdev(st.Dev_major, st.Dev_minor)
	if f.limit, err = f.longest(); err != nil {
		return &os.PathError{Op: "open", Path: path, Err: err}
	}
	var fs unix.Statfs_t
	if err := unix.Fstatfs(pin, &fs); err != nil {
		return err
	}
	kind := int64(fs.Type)    //nolint:unconvert // another type on other machines
	s.flags = int64(fs.Flags) //nolint:unconvert // the same
	// The first write to a file of a lower layer copies it, and the copy has a new birth time.
	s.noBirth = kind == unix.OVERLAYFS_SUPER_MAGIC
	f.noReserve = kind == unix.XFS_SUPER_MAGIC || kind == unix.BTRFS_SUPER_MAGIC || kind == unix.TMPFS_MAGIC
	if s.private { // otherwise other file systems may be mounted below
		f.quick.On(kind)
	}
	f.share.watch.open(kind)
	if fd, err := openat(fd, ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0); err == nil {
		s.mount = fd
	}
	s.lacks = f.tryHandles(kind)
	s.handled = s.lacks == ""
	s.fids = s.noBirth && !s.handled && f.fid(fd, "", unix.AT_EMPTY_PATH) != 0
	root, err := f.identify(fd)
	if err != nil {
		return err
	}
	f.root.key = root.key
	// Handles belong to this directory too: what was below another one that stood at the path may be anywhere now.
	id, ends := f.identity(kind)
	id = append(append(id, 0), root.key.id[:root.key.n]...)
	f.seal, s.ends = newSealer(f.cfg.Key, path, id), ends
	return nil
}

// tryHandles opens the root by its own handle. It returns what stands against it.
func (f *FS) tryHandles(kind int64) string {
	s := &f.sys
	switch {
	case f.cfg.places:
		return "a test"
	case kind == unix.FUSE_SUPER_MAGIC && f.cfg.FSID != "":
		return "those of FUSE end with its server, and fsid= says that files do not"
	case s.mount == 0:
		return "the root cannot be read"
	}
	var k key
	if err := handleAt(f.top.fd, "", unix.AT_EMPTY_PATH, &k, &s.mountID); err != nil {
		return "the file system has none: " + err.Error()
	}
	again, err := openHandle(s.mount, &k)
	if err != nil {
		return "no CAP_DAC_READ_SEARCH"
	}
	unix.Close(again)
	return ""
}

// handles says what handles are, for a log.
func (s *sysFS) handles(kept bool) string {
	text := "handles are those of the file system"
	switch {
	case !s.handled:
		text = "handles are found again by a search (" + s.lacks + ")"
	case !s.private:
		text += ", confined by paths (no CAP_SYS_ADMIN)"
	}
	switch {
	case !kept:
		text += ", and end with this process (no key is kept)"
	case s.ends != "":
		text += ", and end with this " + s.ends + " (the file system cannot be told from another: fsid= says which it is)"
	}
	return text
}

func (s *sysFS) close() (err error) {
	for _, fd := range []int{s.mount, s.pin} {
		if fd != 0 {
			err = errors.Join(err, unix.Close(fd))
		}
	}
	return err
}

// longest returns the length of the longest file that the file system takes, found by trying on a file without
// a name. Beyond the limit of the process, trying would kill it.
func (f *FS) longest() (uint64, error) {
	most := uint64(1<<63 - 1)
	var lim unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_FSIZE, &lim); err == nil {
		most = min(most, lim.Cur)
	}
	fd, err := openat(f.top.fd, ".", unix.O_TMPFILE|unix.O_WRONLY|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return most, nil // read only, or no such files here: the limit shows when it is reached
	}
	defer unix.Close(fd)
	fits := func(n uint64) bool { return unix.Ftruncate(fd, int64(n)) == nil }
	if fits(most) {
		return most, nil
	}
	low, high := uint64(0), most // low fits, high does not
	for high-low > 1 {
		if mid := low + (high-low)/2; fits(mid) {
			low = mid
		} else {
			high = mid
		}
	}
	return low, nil
}

// statAt looks at a name in a directory; links are not followed. It is for file systems without handles.
func (f *FS) statAt(d gripRef, name string) (stat, error) {
	var st unix.Statx_t
	err := statx(d.fd, name, unix.AT_SYMLINK_NOFOLLOW|unix.AT_NO_AUTOMOUNT, &st)
	if err != nil {
		return stat{}, status(err)
	}
	own := f.sys.stat(&st)
	f.tell(&own, d.fd, name, 0)
	return own, nil
}

// statFile looks at an open file.
func (f *FS) statFile(file *os.File) (stat, error) { return f.statFD(int(file.Fd())) }

// statFD looks at a file. The identity is right only on file systems without handles.
func (f *FS) statFD(fd int) (stat, error) {
	var st unix.Statx_t
	if err := f.quick.Statx(fd, statxMask, &st); err != nil {
		return stat{}, status(err)
	}
	own := f.sys.stat(&st)
	f.tell(&own, fd, "", unix.AT_EMPTY_PATH)
	return own, nil
}

// tell completes the identity of a file on an overlay, which uses inode numbers again.
func (f *FS) tell(st *stat, fd int, name string, flags int) {
	if f.sys.fids {
		st.key = ownKey(0, st.attr.FileID, f.fid(fd, name, flags))
	}
}

// fid returns a number that tells a file from those that had its inode before: of a handle that nobody can open, which
// stays the same when the file is copied to the upper layer (Linux 6.6). 0: there is none.
func (f *FS) fid(fd int, name string, flags int) int64 {
	const handleFID = 0x200 // AT_HANDLE_FID
	var h fileHandle
	var mount int32
	if handleOf(fd, name, flags|handleFID, &h, &mount) != nil {
		return 0
	}
	sum := sha256.Sum256(h.id[:h.n])
	return int64(binary.BigEndian.Uint64(sum[:]))
}

// statxMask is what a stat needs.
const statxMask = unix.STATX_BASIC_STATS | unix.STATX_BTIME

func statx(fd int, name string, flags int, st *unix.Statx_t) error {
	return unix.Statx(fd, name, flags, statxMask, st)
}

// stat converts the answer of the kernel.
func (s *sysFS) stat(x *unix.Statx_t) stat {
	dev := unix.Mkdev(x.Dev_major, x.Dev_minor)
	st := stat{attr: nfs3.Attr{
		Type: typeOf(x.Mode), Mode: uint32(x.Mode) & 0o7777, Nlink: x.Nlink, UID: x.Uid, GID: x.Gid,
		Size: x.Size, Used: x.Blocks * 512, Rdev: nfs3.Device{Major: x.Rdev_major, Minor: x.Rdev_minor},
		FSID: dev, FileID: x.Ino, Atime: timeOf(&x.Atime), Mtime: timeOf(&x.Mtime), Ctime: timeOf(&x.Ctime),
	}}
	if x.Mask&unix.STATX_BTIME != 0 && !s.noBirth {
		st.birth = x.Btime.Sec*1e9 + int64(x.Btime.Nsec)
	}
	if !s.handled {
		if dev == s.dev {
			dev = 0
		}
		st.key = ownKey(dev, x.Ino, st.birth)
	}
	st.fixed = x.Attributes&(unix.STATX_ATTR_IMMUTABLE|unix.STATX_ATTR_APPEND) != 0
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
func (f *FS) usage() (backend.Usage, error) {
	var st unix.Statfs_t
	if err := unix.Fstatfs(f.top.fd, &st); err != nil {
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

// MaxDescriptors returns how many files and connections the process may have open. Go has raised the soft limit to the hard one.
func MaxDescriptors() int {
	var lim unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &lim); err != nil {
		return math.MaxInt
	}
	return int(min(lim.Cur, math.MaxInt))
}

// setFD changes owner, mode and times, in this order: a change of owner clears the set-id
// bits, and each of them changes the ctime.
func setFD(fd int, link bool, a *nfs3.SetAttr) error {
	if a.SetUID || a.SetGID {
		uid, gid := -1, -1
		if a.SetUID {
			uid = int(int32(a.UID))
		}
		if a.SetGID {
			gid = int(int32(a.GID))
		}
		if err := unix.Fchownat(fd, "", uid, gid, unix.AT_EMPTY_PATH); err != nil {
			return err
		}
	}
	if a.SetMode {
		if link {
			return nfs3.ErrNotSupp
		}
		if err := chmodFD(fd, a.Mode&0o7777); err != nil {
			return err
		}
	}
	if a.AtimeHow == nfs3.DontChange && a.MtimeHow == nfs3.DontChange {
		return nil
	}
	ts := []unix.Timespec{timespec(a.AtimeHow, a.Atime), timespec(a.MtimeHow, a.Mtime)}
	return timesFD(fd, ts)
}

// chmodFD changes the mode with fchmodat2 (Linux 6.6 and later), or else by the file's name
// in /proc.
func chmodFD(fd int, mode uint32) error {
	err := unix.Fchmodat(fd, "", mode, unix.AT_EMPTY_PATH)
	if err == unix.EOPNOTSUPP || err == unix.ENOSYS || err == unix.EINVAL {
		return chmodProc(fd, mode)
	}
	return err
}

func chmodProc(fd int, mode uint32) error {
	return unix.Fchmodat(unix.AT_FDCWD, procName(fd), mode, 0)
}

// timesFD changes times. Kernels before 5.8 do not accept an empty path.
func timesFD(fd int, ts []unix.Timespec) error {
	err := unix.UtimesNanoAt(fd, "", ts, unix.AT_EMPTY_PATH)
	if err == unix.EINVAL || err == unix.ENOENT {
		return timesProc(fd, ts)
	}
	return err
}

func timesProc(fd int, ts []unix.Timespec) error {
	return unix.UtimesNanoAt(unix.AT_FDCWD, procName(fd), ts, 0)
}

// procName is a name of an open file that leads to the file itself, even if it is a link.
func procName(fd int) string { return "/proc/self/fd/" + strconv.Itoa(fd) }

func timespec(how nfs3.TimeHow, t nfs3.Time) unix.Timespec {
	switch how {
	case nfs3.ServerTime:
		return unix.Timespec{Nsec: unix.UTIME_NOW}
	case nfs3.ClientTime:
		return nsecTimespec(t)
	case nfs3.DontChange:
	}
	return unix.Timespec{Nsec: unix.UTIME_OMIT}
}

// nsecTimespec converts t. It limits the nanoseconds to less than a second: the kernel would
// refuse more, or take them for one of its special values.
func nsecTimespec(t nfs3.Time) unix.Timespec {
	ts, _ := unix.TimeToTimespec(nfs3.Time{Sec: t.Sec, Nsec: min(t.Nsec, 999999999)}.Time())
	return ts
}

var _ backend.ACLs = (*file)(nil)

// aclVersion is that of POSIX ACLs in extended attributes (posix_acl_xattr.h): a header with it, and entries of tag,
// permissions and id.
const aclVersion = 2

func aclName(inherited bool) string {
	if inherited {
		return "system.posix_acl_default"
	}
	return "system.posix_acl_access"
}

// ACL reads what the kernel obeys. As with the mode, nobody needs a right to see it.
func (n *file) ACL(inherited bool) (nfs3.ACL, error) {
	g, err := n.hold()
	if err != nil {
		return nil, err
	}
	defer g.done()
	b := make([]byte, 4+8*nfs3.MaxACE)
	size, err := unix.Getxattr(procName(g.fd), aclName(inherited), b)
	switch {
	case errors.Is(err, unix.ENODATA):
		return nil, nil
	case errors.Is(err, unix.EOPNOTSUPP):
		return nil, nfs3.ErrNotSupp
	case err != nil:
		return nil, status(err)
	case size < 4 || (size-4)%8 != 0 || binary.LittleEndian.Uint32(b) != aclVersion:
		return nil, nfs3.ErrNotSupp
	}
	var a nfs3.ACL
	for e := b[4:size]; len(e) > 0; e = e[8:] {
		a = append(a, nfs3.ACE{
			Tag: uint32(binary.LittleEndian.Uint16(e)), Perm: uint32(binary.LittleEndian.Uint16(e[2:])), ID: binary.LittleEndian.Uint32(e[4:]),
		})
	}
	return a, nil
}

// SetACL has the kernel decide whether the caller may, and whether the ACL is one.
func (n *file) SetACL(inherited bool, a nfs3.ACL) error {
	g, err := n.hold()
	if err != nil {
		return err
	}
	defer g.done()
	name := procName(g.fd)
	err = n.do(func() error {
		if len(a) == 0 {
			if err := unix.Removexattr(name, aclName(inherited)); !errors.Is(err, unix.ENODATA) {
				return err
			}
			return nil
		}
		b := binary.LittleEndian.AppendUint32(nil, aclVersion)
		for _, e := range a {
			id := ^uint32(0)
			if e.Tag == nfs3.ACEUser || e.Tag == nfs3.ACEGroup {
				id = e.ID
			}
			b = binary.LittleEndian.AppendUint16(b, uint16(e.Tag))
			b = binary.LittleEndian.AppendUint16(b, uint16(e.Perm))
			b = binary.LittleEndian.AppendUint32(b, id)
		}
		return unix.Setxattr(name, aclName(inherited), b, 0)
	})
	if errors.Is(err, unix.EOPNOTSUPP) {
		return nfs3.ErrNotSupp
	}
	if err != nil {
		return status(err)
	}
	return n.settleAttr()
}

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

// Layout of struct linux_dirent64: ino 8, off 8, reclen 2, type 1, name.
const (
	direntOff  = 8
	direntLen  = 16
	direntType = 18
	direntName = 19
	direntBuf  = 32 << 10
)

// list calls fn for the names of d after cookie until fn returns false. It reports whether the
// end was reached, and how many names were taken. Cookies are those of the file system (d_off
// of getdents), which stay valid while names come and go.
func (f *FS) list(d gripRef, cookie uint64, fn func(*rawEntry) bool) (eof bool, taken int, err error) {
	if cookie > 1<<63-1 {
		return false, 0, nfs3.ErrBadCookie
	}
	// Not by openat of ".": NFS lets who may read a directory list it, even if he may not search it.
	fd, err := openat(unix.AT_FDCWD, procName(d.fd), unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return false, 0, status(err)
	}
	defer unix.Close(fd)
	if cookie != 0 {
		if _, err := unix.Seek(fd, int64(cookie), io.SeekStart); err != nil {
			return false, 0, nfs3.ErrBadCookie
		}
	}
	buf := make([]byte, direntBuf)
	for {
		n, err := unix.Getdents(fd, buf)
		if n <= 0 || err != nil {
			return err == nil, taken, status(err)
		}
		for b := buf[:n]; len(b) > direntName; {
			size := int(binary.NativeEndian.Uint16(b[direntLen:]))
			e := direntOf(b[:size])
			b = b[size:]
			if e.ino == 0 {
				continue
			}
			if !fn(&e) {
				return false, taken, nil
			}
			taken++
		}
	}
}

// direntOf reads one entry.
func direntOf(b []byte) rawEntry {
	name := b[direntName:]
	if i := bytes.IndexByte(name, 0); i >= 0 {
		name = name[:i]
	}
	t := b[direntType]
	return rawEntry{
		ino:      binary.NativeEndian.Uint64(b),
		cookie:   binary.NativeEndian.Uint64(b[direntOff:]),
		name:     string(name),
		maybeDir: t == unix.DT_DIR || t == unix.DT_UNKNOWN,
	}
}
