package nfsclient

import (
	"io"
	"sync"
)

// Window makes an io.ReaderAt from an io.Reader: it keeps the octets that were read until they are
// released, so that UNSTABLE writes can be sent again if the server loses them (RFC 1813 Section
// 3.3.21). Offsets count from the first octet read. It is safe for concurrent use.
type Window struct {
	mu   sync.Mutex
	r    io.Reader
	kept []byte // octets [base, base+len(kept)) of the stream
	base int64
	size int   // most octets kept
	err  error // of r, including io.EOF; final
}

// NewWindow keeps up to size octets of r.
func NewWindow(r io.Reader, size int) *Window { return &Window{r: r, size: size} }

// Size returns how many octets are kept at most, and so how many may be in flight without a COMMIT.
func (w *Window) Size() int64 { return int64(w.size) }

// ReadAt implements io.ReaderAt within the window.
func (w *Window) ReadAt(p []byte, off int64) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if off < w.base || off+int64(len(p)) > w.base+int64(w.size) {
		return 0, io.ErrShortBuffer
	}
	w.fill(int(off-w.base) + len(p))
	if int(off-w.base) >= len(w.kept) {
		return 0, w.end()
	}
	n := copy(p, w.kept[off-w.base:])
	if n < len(p) {
		return n, w.end()
	}
	return n, nil
}

// end returns why there are no more octets.
func (w *Window) end() error {
	if w.err == nil {
		return io.ErrNoProgress
	}
	return w.err
}

// fill reads on until n octets are kept or the stream ends.
func (w *Window) fill(n int) {
	if w.kept == nil {
		w.kept = make([]byte, 0, w.size)
	}
	for empty := 0; len(w.kept) < n && w.err == nil && empty < 100; {
		m, err := w.r.Read(w.kept[len(w.kept):n])
		w.kept, w.err = w.kept[:len(w.kept)+m], err
		if m == 0 {
			empty++
		}
	}
}

// Release forgets the octets before off, which are durable.
func (w *Window) Release(off int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if n := int(min(off-w.base, int64(len(w.kept)))); n > 0 {
		w.kept = w.kept[:copy(w.kept, w.kept[n:])]
		w.base += int64(n)
	}
}
