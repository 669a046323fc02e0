//go:build !(linux || darwin || freebsd || netbsd || openbsd || dragonfly)

package pmem

import (
	"errors"
	"os"
	"runtime"
)

// lock refuses: without a lock that ends with its opener, two openers could own the file.
func lock(f *os.File) error {
	return &Error{Op: "lock", Path: f.Name(), Kind: ErrRefused, Err: errors.New("no file locks on " + runtime.GOOS)}
}

// SyncDir does nothing here.
func SyncDir(string) error { return nil }
