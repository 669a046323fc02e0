package capture

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// CloseTimeout bounds how long Close waits for queued octets to be written.
const CloseTimeout = 5 * time.Second

// ErrStuck is the error of Close if the rest could not be written in time.
var ErrStuck = errors.New("capture: writing to the file hangs: the end of the capture is lost")

// LossError says that a capture has holes.
type LossError struct{ Octets uint64 }

// Error implements error.
func (e *LossError) Error() string {
	return fmt.Sprintf("capture: %d octets are missing, because the file was too slow: use a faster disk, or less traffic", e.Octets)
}

// Writer writes packets of synthetic connections to one pcapng file. It is safe for
// concurrent use. Close it at the end.
type Writer struct {
	q     *queue
	conns atomic.Uint32
	done  chan struct{} // closed when run has ended
	err   atomic.Pointer[error]
	once  sync.Once
	end   error // the result of Close

	// The goroutine of run owns what follows.
	out  *bufio.Writer
	buf  []byte    // a block
	file io.Closer // nil if the caller closes it
}

// Create creates or truncates the named file, which only its owner can read: it will hold the data of all. It returns
// a Writer that writes to it.
func Create(name string) (*Writer, error) {
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return nil, err
	}
	if st, err := f.Stat(); err == nil && st.Mode().IsRegular() && st.Mode().Perm()&0o077 != 0 {
		if err := f.Chmod(0o600); err != nil { // it was there before
			_ = f.Close() // the first error counts
			return nil, err
		}
	}
	w, err := newWriter(f, f)
	if err != nil {
		_ = f.Close() // the first error counts
		return nil, err
	}
	return w, nil
}

// NewWriter writes the head of a pcapng file to out, and returns a Writer that writes the rest. The
// Writer uses out until Close, from one goroutine, and does not close it.
func NewWriter(out io.Writer) (*Writer, error) { return newWriter(out, nil) }

func newWriter(out io.Writer, file io.Closer) (*Writer, error) {
	w := &Writer{q: newQueue(), done: make(chan struct{}), out: bufio.NewWriterSize(out, 256<<10), file: file}
	_, _ = w.out.Write(appendHead(nil)) // Flush returns the error again
	if err := w.out.Flush(); err != nil {
		return nil, err
	}
	go w.run()
	return w, nil
}

// packet writes one packet.
func (w *Writer) packet(at time.Time, headers, payload []byte) {
	if w.Err() != nil {
		return
	}
	w.buf = appendPacket(w.buf[:0], at, headers, payload)
	_, err := w.out.Write(w.buf)
	w.fail(err)
}

// Err returns the first error of the file, or nil.
func (w *Writer) Err() error {
	if p := w.err.Load(); p != nil {
		return *p
	}
	return nil
}

// Dropped returns the number of octets that are not in the capture because the file
// was too slow.
func (w *Writer) Dropped() uint64 { return w.q.lost() }

// Close ends the recording: it writes what is queued, and closes the file if Create opened it.
// Connections that are still tapped go on unrecorded. It returns the first error of the file, or
// ErrStuck after CloseTimeout, or a *LossError if the capture has holes. Later calls return the same.
func (w *Writer) Close() error {
	w.once.Do(func() {
		w.q.close()
		t := time.NewTimer(CloseTimeout)
		defer t.Stop()
		select {
		case <-w.done:
			w.end = w.Err()
		case <-t.C:
			w.end = ErrStuck
		}
		if n := w.Dropped(); w.end == nil && n > 0 {
			w.end = &LossError{n}
		}
	})
	return w.end
}

// run writes what is queued until the queue is closed.
func (w *Writer) run() {
	defer close(w.done)
	var b batch
	for range w.q.more {
		w.write(&b)
	}
	w.write(&b)
	if w.file != nil {
		w.fail(w.file.Close())
	}
}

// write writes everything in the queue, and flushes it to the file, so that a killed process leaves
// a capture behind.
func (w *Writer) write(b *batch) {
	w.q.swap(b)
	data := b.data
	for i := range b.records {
		r := &b.records[i]
		r.c.play(r, data[:r.n])
		data = data[r.n:]
	}
	if w.Err() == nil {
		w.fail(w.out.Flush())
	}
}

// fail keeps the first error.
func (w *Writer) fail(err error) {
	if err != nil && w.Err() == nil {
		w.err.Store(&err)
	}
}
