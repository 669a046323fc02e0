package dir

import (
	"bytes"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"unsafe"

	"github.com/stag-rdma/stag/internal/shared"
	"golang.org/x/sys/unix"
)

// spot tells a directory from all others that can stand at a path while the first is held open.
type spot struct{ mount, dev, ino uint64 }

// spotAt looks at a directory, and says whether a mount begins there.
func spotAt(fd int, name string, flags int) (s spot, begins bool, err error) {
	var st unix.Statx_t
	err = unix.Statx(fd, name, flags, unix.STATX_INO|unix.STATX_MNT_ID, &st)
	return spot{st.Mnt_id, unix.Mkdev(st.Dev_major, st.Dev_minor), st.Ino}, st.Attributes&unix.STATX_ATTR_MOUNT_ROOT != 0, err
}

// Check returns nil while the directory that is served stands at its path and answers, with the options of its
// mount. Otherwise it should not be served any more: Close lets go of it, so that it can be unmounted, and New
// opens what stands there now. It may hang as long as the file system does.
func (f *FS) Check() error {
	f.open.Lock() // not a descriptor that Close has given back
	defer f.open.Unlock()
	if f.closed {
		return os.ErrClosed
	}
	own, _, err := spotAt(f.sys.pin, "", unix.AT_EMPTY_PATH)
	if err != nil {
		return err // the file system is gone: a FUSE server that ended, a device that was pulled
	}
	now, _, err := spotAt(unix.AT_FDCWD, f.path, 0)
	switch {
	case errors.Is(err, unix.ENOENT):
		return errors.New("no such directory: it was moved or removed")
	case err != nil:
		return err
	case now.mount != own.mount:
		return errors.New("something else is mounted there now, or it was unmounted")
	case now != own:
		return errors.New("another directory stands there now")
	}
	// Options of the mount alone, as of "mount -o remount,bind,ro", do not reach the private copy.
	var fs unix.Statfs_t
	if err := unix.Fstatfs(f.sys.pin, &fs); err != nil {
		return err
	}
	if int64(fs.Flags) != f.sys.flags { //nolint:unconvert // another type on other machines
		return errors.New("its mount has other options now")
	}
	return mounted(f.cfg.Mountpoint)
}

// mounted returns an error if no mount begins at path.
func mounted(path string) error {
	if path == "" {
		return nil
	}
	_, begins, err := spotAt(unix.AT_FDCWD, path, 0)
	if err == nil && !begins || errors.Is(err, unix.ENOENT) {
		err = fmt.Errorf("nothing is mounted at %s", path)
	}
	return err
}

// Mountpoint returns where the mount begins that the directory is on. What stands at the path while nothing is
// mounted there is something else.
func (f *FS) Mountpoint() string { return f.sys.mountpoint }

func mountpointOf(path string) (string, error) {
	path, err := filepath.EvalSymlinks(path)
	for err == nil && path != "/" {
		var begins bool
		if _, begins, err = spotAt(unix.AT_FDCWD, path, 0); begins {
			break
		}
		path = filepath.Dir(path)
	}
	return path, err
}

// uuids are the ways to ask a file system for its UUID: its own one first, because not every version of Linux has
// the general one, and that of ext4 does not notice tune2fs -U.
var uuids = []struct {
	kind   int64 // 0: any
	call   uintptr
	length byte // first octet of the argument
	at     int  // where the UUID is in it
}{
	{unix.EXT4_SUPER_MAGIC, 0x8008662c, 16, 8},  // EXT4_IOC_GETFSUUID
	{unix.XFS_SUPER_MAGIC, 0x80705864, 0, 64},   // XFS_IOC_FSGEOMETRY_V1
	{unix.BTRFS_SUPER_MAGIC, 0x8400941f, 0, 16}, // BTRFS_IOC_FS_INFO
	{0, 0x80111500, 0, 1},                       // FS_IOC_GETFSUUID
}

// uuid returns the UUID of the file system of fd; ok is false if it has none.
func uuid(fd int, kind int64) (id [16]byte, ok bool) {
	for _, u := range uuids {
		if u.kind != 0 && u.kind != kind {
			continue
		}
		arg := [1024]byte{u.length}
		if _, _, e := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), u.call, uintptr(unsafe.Pointer(&arg))); e == 0 {
			copy(id[:], arg[u.at:])
		}
		if id != [16]byte{} {
			return id, true
		}
	}
	return id, false
}

// identity returns what tells the file system from all others that may stand at the path, and how long that lasts if
// not for ever. Device numbers are used again, and so are mount ids.
func (f *FS) identity(kind int64) (id []byte, ends string) {
	if f.cfg.FSID != "" {
		return []byte("fsid " + f.cfg.FSID), ""
	}
	switch kind {
	case unix.EXT4_SUPER_MAGIC, unix.XFS_SUPER_MAGIC, unix.BTRFS_SUPER_MAGIC, unix.F2FS_SUPER_MAGIC, unix.TMPFS_MAGIC:
	case unix.OVERLAYFS_SUPER_MAGIC:
		if f.sys.handled || f.sys.fids {
			break
		}
		fallthrough
	default:
		// Without generations or birth times, the same number may be another file when the file system comes back, even
		// one with the same UUID: an image that was made again, a FUSE server that was restarted.
		return f.instance()
	}
	if f.sys.mount != 0 {
		if u, ok := uuid(f.sys.mount, kind); ok {
			return append([]byte("uuid "), u[:]...), ""
		}
	}
	return f.instance()
}

// instance is the identity of the file system as long as it stays mounted: the number of the mount, which is not used
// again until the machine starts again.
func (f *FS) instance() (id []byte, ends string) {
	var st unix.Statx_t
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err == nil {
		err = unix.Statx(f.sys.pin, "", unix.AT_EMPTY_PATH, unix.STATX_MNT_ID_UNIQUE, &st)
	}
	if err != nil || st.Mask&unix.STATX_MNT_ID_UNIQUE == 0 { // before Linux 6.8
		id = make([]byte, 16)
		rand.Read(id) // never fails (crypto/rand)
		return id, "process"
	}
	return binary.BigEndian.AppendUint64(append([]byte("mount "), bytes.TrimSpace(boot)...), st.Mnt_id), "mount"
}

// watcher hears from the kernel when mode, owner, ACL or labels of an open file change (inotify(7)). The ctime, which
// changes with these too, cannot tell: a WRITE changes it as well, and its clock ticks slowly.
type watcher struct {
	fd int // 0: the kernel cannot tell

	mu    shared.RWMutex // held to read the queue: what left it is noted before anybody looks whether it is empty
	files map[int32]*inode
}

// watched is what a watcher knows of a file, guarded by watcher.mu.
type watched struct {
	wd      int32 // 0: the file is not watched
	changes uint64
}

// open watches file systems that change only through this kernel: of those of other machines it hears nothing,
// nor of the lower layers of an overlay.
func (w *watcher) open(fsType int64) {
	switch fsType {
	case unix.EXT4_SUPER_MAGIC, unix.XFS_SUPER_MAGIC, unix.BTRFS_SUPER_MAGIC, unix.F2FS_SUPER_MAGIC, unix.TMPFS_MAGIC:
	default:
		return
	}
	fd, err := unix.InotifyInit1(unix.IN_NONBLOCK | unix.IN_CLOEXEC)
	if err != nil {
		return // there are limits on these (inotify(7)): the kernel is asked more often then
	}
	w.fd, w.files = fd, make(map[int32]*inode)
}

func (w *watcher) close() error {
	if w.fd == 0 {
		return nil
	}
	return unix.Close(w.fd)
}

// add watches the file that fd holds; -1: nobody needs to know.
func (w *watcher) add(s *inode, fd int) {
	if w.fd == 0 || fd < 0 {
		return
	}
	w.mu.Lock() // from the call on there may be events of s
	defer w.mu.Unlock()
	if s.wd != 0 {
		return
	}
	wd, err := unix.InotifyAddWatch(w.fd, procName(fd), unix.IN_ATTRIB)
	if err == nil {
		s.wd = int32(wd)
		w.files[s.wd] = s
	}
}

func (w *watcher) remove(s *inode) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if s.wd == 0 {
		return
	}
	delete(w.files, s.wd)
	_, _ = unix.InotifyRmWatch(w.fd, uint32(s.wd)) // fails if the file system was unmounted
}

// changes returns how often the file has changed, ok if no change is missed.
func (w *watcher) changes(s *inode) (n uint64, ok bool) {
	if w.fd == 0 {
		return 0, false
	}
	n, waiting, ok := w.seen(s)
	if waiting == 0 {
		return n, ok
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.read(waiting)
	return s.changes, s.wd != 0
}

// seen returns how often the file was seen to have changed, how many octets wait to be read, and ok if no change is missed
// once they are.
func (w *watcher) seen(s *inode) (n uint64, waiting int, ok bool) {
	w.mu.RLock()
	defer w.mu.RUnlock()
	waiting, err := w.waiting()
	if ok = s.wd != 0 && err == 0; !ok {
		waiting = 0
	}
	return s.changes, waiting, ok
}

// waiting returns how many octets there are in the queue.
func (w *watcher) waiting() (int, unix.Errno) {
	var n int32
	_, _, e := unix.RawSyscall(unix.SYS_IOCTL, uintptr(w.fd), unix.TIOCINQ, uintptr(unsafe.Pointer(&n)))
	return int(n), e
}

// read takes at least n octets out of the queue: who changes files all the time keeps nobody here.
func (w *watcher) read(n int) {
	buf := make([]byte, 64*unix.SizeofInotifyEvent)
	for n > 0 {
		got, err := unix.Read(w.fd, buf)
		if err == unix.EINTR {
			continue
		}
		if err != nil || got <= 0 {
			return // somebody else has read it
		}
		n -= got
		for b := buf[:got]; len(b) >= unix.SizeofInotifyEvent; {
			w.note(int32(binary.NativeEndian.Uint32(b)), binary.NativeEndian.Uint32(b[4:]))
			name := binary.NativeEndian.Uint32(b[12:]) // of files in a directory: none here
			b = b[unix.SizeofInotifyEvent+int(name):]
		}
	}
}

// note notes an event.
func (w *watcher) note(wd int32, mask uint32) {
	if mask&unix.IN_Q_OVERFLOW != 0 {
		for _, s := range w.files {
			s.changes++
		}
		return
	}
	s := w.files[wd]
	if s == nil {
		return // of a file that is closed
	}
	s.changes++
	if mask&unix.IN_IGNORED != 0 { // the file system was unmounted
		delete(w.files, wd)
		s.wd = 0
	}
}
