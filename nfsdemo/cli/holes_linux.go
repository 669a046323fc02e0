package cli

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// holey reads a file of size octets, but not its holes.
type holey struct {
	f    *os.File
	size int64
}

func skipHoles(f *os.File, size int64) io.ReaderAt { return holey{f, size} }

// ReadAt implements io.ReaderAt. It moves the offset of the file, which no ReadAt uses.
func (h holey) ReadAt(p []byte, off int64) (int, error) {
	end := off + int64(len(p))
	data, err := h.f.Seek(off, unix.SEEK_DATA)
	if errors.Is(err, syscall.ENXIO) { // there are none behind off
		data, err = h.size, nil
	}
	if err == nil && data >= end {
		clear(p)
		return len(p), nil
	}
	return h.f.ReadAt(p, off) // also where the file system has no such call
}

// hasXattrs reports whether a file has extended attributes or an ACL. The label of SELinux is not the file's.
func hasXattrs(path string, link bool) bool {
	list := unix.Listxattr
	if link {
		list = unix.Llistxattr
	}
	names := make([]byte, 64<<10) // the most that Linux has
	n, err := list(path, names)
	if err != nil {
		return false
	}
	for name := range strings.SplitSeq(string(names[:n]), "\x00") {
		if name != "" && name != "security.selinux" {
			return true
		}
	}
	return false
}

// changed returns the ctime, by the clock of the file system.
func changed(st fs.FileInfo) time.Time {
	s, ok := st.Sys().(*syscall.Stat_t)
	if !ok {
		return time.Time{}
	}
	return time.Unix(int64(s.Ctim.Sec), int64(s.Ctim.Nsec)) //nolint:unconvert // not everywhere
}
