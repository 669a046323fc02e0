//go:build unix

package cli

import (
	"io/fs"
	"syscall"
)

// fileID returns the number of a file in its file system, 0 if it is unknown.
func fileID(st fs.FileInfo) uint64 {
	if s, ok := st.Sys().(*syscall.Stat_t); ok {
		return s.Ino
	}
	return 0
}
