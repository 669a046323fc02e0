//go:build unix

package cli

import (
	"io/fs"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// dropUmask lets files get the modes that clients ask for: these have applied their umask, and where a
// directory has a default ACL there is none.
func dropUmask() { syscall.Umask(0) }

// inodeOf returns what only Unix says about a file.
func inodeOf(st fs.FileInfo) inode {
	s, ok := st.Sys().(*syscall.Stat_t)
	if !ok {
		return inode{uid: -1, gid: -1}
	}
	return inode{
		fsid: uint64(s.Dev), id: s.Ino, links: uint64(s.Nlink), uid: int64(s.Uid), gid: int64(s.Gid), //nolint:unconvert // not everywhere
		ctime: changed(st), sparse: st.Mode().IsRegular() && s.Blocks*512 < s.Size,
	}
}

// setTime sets the time of the last change of name in root, also if it is a symbolic link.
func setTime(root *os.Root, name string, t time.Time) error {
	ts, err := unix.TimeToTimespec(t)
	if err != nil {
		return err
	}
	dir, err := root.Open(".")
	if err != nil {
		return err
	}
	defer dir.Close()
	return unix.UtimesNanoAt(int(dir.Fd()), name, []unix.Timespec{ts, ts}, unix.AT_SYMLINK_NOFOLLOW)
}
