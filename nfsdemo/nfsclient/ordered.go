package nfsclient

import (
	"context"
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
	err  error // first error of w or of the context; final
}

// NewOrderedWriter starts at octet off of the file. When ctx is done, waiting calls return its
// error. The caller must call Close.
func NewOrderedWriter(ctx context.Context, w io.Writer, off int64) *OrderedWriter {
	o := &OrderedWriter{w: w, off: off}
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

// WriteAt implements io.WriterAt. Every octet must be written once. It borrows p.
func (o *OrderedWriter) WriteAt(p []byte, off int64) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for o.err == nil && o.off != off {
		o.cond.Wait()
	}
	if o.err != nil {
		return 0, o.err
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
