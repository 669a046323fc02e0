package bench

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// fdatasync is what a local log calls.
func fdatasync(f *os.File) error { return unix.Fdatasync(int(f.Fd())) }

// throughCache makes writes to f bypass the page cache and be durable when they return, and reports whether
// it could.
func throughCache(f *os.File) bool {
	path := fmt.Sprintf("/proc/self/fd/%d", f.Fd())
	out, err := os.OpenFile(path, os.O_WRONLY|unix.O_DIRECT|unix.O_DSYNC, 0)
	if err != nil {
		return false
	}
	defer out.Close()
	return unix.Dup3(int(out.Fd()), int(f.Fd()), unix.O_CLOEXEC) == nil
}
