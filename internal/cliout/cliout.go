// Package cliout is the standard output of the project's commands. A command whose output did not
// reach the disk must not exit with status 0, but few of the places that print check the error.
package cliout

import (
	"io"
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
