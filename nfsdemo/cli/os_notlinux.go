//go:build !linux

package cli

import (
	"context"
	"io"
	"io/fs"
	"os"
	"time"
)

func skipHoles(f *os.File, _ int64) io.ReaderAt { return f }

func hasXattrs(string, bool) bool { return false }

func changed(fs.FileInfo) time.Time { return time.Time{} }

// mountChanges hears of none here: a change shows within standEvery.
func mountChanges(context.Context, func()) {}

// diskMounts knows of none here: crossmnt reaches nothing.
func diskMounts() []string { return nil }
