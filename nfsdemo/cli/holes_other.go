//go:build !linux

package cli

import (
	"io"
	"os"
)

func skipHoles(f *os.File, _ int64) io.ReaderAt { return f }

func hasXattrs(string) bool { return false }
