package nfsclient

import (
	"context"
	"errors"
	"io"
	"sync"
)

// OrderedWriter makes an io.WriterAt from an io.Writer: WriteAt waits until all octets before its
// offset are written. So several blocks of a file can be fetched at a time and still be written to a
// pipe in order. It holds no data.
type OrderedWriter struct {
	w    io.Writer
	stop func() bool

	mu   sync.Mutex
	cond sync.Cond
	off  int64
	last int64 // no octet from here on will be written; -1: unknown
	err  error // first error of w, of the context or of a READ; final
}

// errPastEnd is returned to those who wait for octets that will not be written.
var errPastEnd = errors.New("nfsclient: the file has ended before these octets")

// NewOrderedWriter starts at octet off of the file. When ctx is done, waiting calls return its
// error. The caller must call Close.
func NewOrderedWriter(ctx context.Context, w io.Writer, off int64) *OrderedWriter {
	o := &OrderedWriter{w: w, off: off, last: -1}
	o.cond.L = &o.mu
	o.stop = context.AfterFunc(ctx, func() { o.fail(context.Cause(ctx)) })
	return o
}

// fail ends all waiting calls with err.
func (o *OrderedWriter) fail(err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.err == nil {
		o.err = err
	}
	o.cond.Broadcast()
}

// end says that the file ends at octet off, though later octets may have been read: it was truncated.
func (o *OrderedWriter) end(off int64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.last < 0 || off < o.last {
		o.last = off
	}
	o.cond.Broadcast()
}

// WriteAt implements io.WriterAt. Every octet must be written once. It borrows p.
func (o *OrderedWriter) WriteAt(p []byte, off int64) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	past := func() bool { return o.last >= 0 && off >= o.last }
	for o.err == nil && o.off != off && !past() {
		o.cond.Wait()
	}
	switch {
	case o.err != nil:
		return 0, o.err
	case past():
		return 0, errPastEnd
	}
	n, err := o.w.Write(p)
	o.off += int64(n)
	if err != nil {
		o.err = err
	}
	o.cond.Broadcast()
	return n, err
}

// Close releases the context. It does not close the underlying writer.
func (o *OrderedWriter) Close() error {
	o.stop()
	return nil
}
