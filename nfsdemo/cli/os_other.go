//go:build !unix

package cli

import (
	"io/fs"
	"os"
	"time"
)

func dropUmask() {}

// inodeOf knows nothing here.
func inodeOf(fs.FileInfo) inode { return inode{uid: -1, gid: -1} }

// setTime sets the time of the last change of name in root. It cannot do so for a symbolic link.
func setTime(root *os.Root, name string, t time.Time) error {
	if st, err := root.Lstat(name); err != nil || isLink(st.Mode()) {
		return err
	}
	return root.Chtimes(name, t, t)
}
