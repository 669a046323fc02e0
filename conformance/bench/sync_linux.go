package bench

import (
	"os"

	"golang.org/x/sys/unix"
)

// fdatasync is what a local log calls.
func fdatasync(f *os.File) error { return unix.Fdatasync(int(f.Fd())) }
