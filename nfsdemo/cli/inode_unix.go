//go:build unix

package cli

import (
	"io/fs"
	"syscall"
)

// inodeOf returns what only Unix says about a file.
func inodeOf(st fs.FileInfo) inode {
	s, ok := st.Sys().(*syscall.Stat_t)
	if !ok {
		return inode{uid: -1, gid: -1}
	}
	return inode{
		fsid: uint64(s.Dev), id: s.Ino, links: uint64(s.Nlink), uid: int64(s.Uid), gid: int64(s.Gid), //nolint:unconvert // not everywhere
		sparse: st.Mode().IsRegular() && s.Blocks*512 < s.Size,
	}
}
