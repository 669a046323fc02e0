// Package cliout is the standard output of the project's commands. A command whose output did not
// reach the disk must not exit with status 0, but few of the places that print check the error.
package cliout

import (
	"io"
	"runtime/debug"
	"sync"
)

// Writer passes on what is written to it, and remembers the first error. After an error it writes
// nothing more: what comes after a gap is of no use. Safe for concurrent use.
type Writer struct {
	mu  sync.Mutex
	w   io.Writer
	err error
}

// New returns a Writer to w.
func New(w io.Writer) *Writer { return &Writer{w: w} }

// Write implements io.Writer; it borrows b.
func (w *Writer) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err != nil {
		return 0, w.err
	}
	n, err := w.w.Write(b)
	w.err = err
	return n, err
}

// Err returns the first error of a Write, as that Write returned it; nil if all went well.
func (w *Writer) Err() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.err
}

// release is the version of a release; make release sets it.
var release string

// Version describes a program: the version of its release or of its module, or, in a checkout, the revision.
func Version() string {
	info, ok := debug.ReadBuildInfo()
	switch {
	case release != "":
		return release
	case !ok:
		return "unknown"
	}
	return VersionOf(info)
}

// VersionOf is Version of what the Go tool has put into a program.
func VersionOf(info *debug.BuildInfo) string {
	if v := info.Main.Version; v != "" && v != "(devel)" {
		return v
	}
	settings := make(map[string]string)
	for _, s := range info.Settings {
		settings[s.Key] = s.Value
	}
	v := "devel"
	if rev := settings["vcs.revision"]; rev != "" {
		v += " " + rev[:min(12, len(rev))]
		if settings["vcs.modified"] == "true" {
			v += " (modified)"
		}
	}
	return v
}
