// Package cliout is the standard output of the project's commands. A table that did not reach
// the disk must not end with exit status 0, and few of the places that print look at the error.
package cliout

import (
	"io"
	"sync"
)

// Writer passes on what is written to it, and remembers the first error. After one it writes no
// more: what comes behind a gap is of no use. Safe for concurrent use.
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
