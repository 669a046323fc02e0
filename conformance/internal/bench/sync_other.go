//go:build !linux

package bench

import "os"

// fdatasync is what a local log calls.
func fdatasync(f *os.File) error { return f.Sync() }

func throughCache(*os.File) bool { return false }
