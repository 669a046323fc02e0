package dir

import (
	"bytes"
	"encoding/binary"
	"io"

	"github.com/stag-rdma/stag/nfsdemo/nfs3"
	"golang.org/x/sys/unix"
)

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
