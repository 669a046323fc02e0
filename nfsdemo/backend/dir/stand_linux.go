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
