//go:build !linux

package quick

import "os"

// Files makes calls on the files of one file system.
type Files struct{}

// ReadAt is f.ReadAt.
func (*Files) ReadAt(f *os.File, p []byte, off int64) (int, error) { return f.ReadAt(p, off) }

// Truncate is f.Truncate.
func (*Files) Truncate(f *os.File, size int64) error { return f.Truncate(size) }

// WriteAt is f.WriteAt.
func (*Files) WriteAt(f *os.File, p []byte, off int64) (int, error) { return f.WriteAt(p, off) }
