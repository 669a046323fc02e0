package rdmaptest

import (
	"errors"
	"net"
	"os"
	"sync"
	"time"
)

// Faulty is a connection with faults. Like any net.Conn it is safe for concurrent use.
type Faulty struct {
	net.Conn
	in, out  lane
	closed   chan struct{}
	closing  sync.Once
	resetNow sync.Once
	reset    chan struct{} // closed by a reset
}

// lane is one direction of a Faulty.
type lane struct {
	op       sync.Mutex // one Read or Write at a time
	mu       sync.Mutex
	course   course
	deadline deadline
	held     []byte // read, but not yet due
	due      time.Time
}

var _ net.Conn = (*Faulty)(nil)

const forever = -1

// Wrap returns c with the faults f. Use the result instead of c. To wrap it again adds to the
// faults.
func Wrap(c net.Conn, f Faults) *Faulty {
	w := &Faulty{Conn: c, closed: make(chan struct{}), reset: make(chan struct{})}
	w.in.deadline.init()
	w.out.deadline.init()
	w.Set(f)
	return w
}

// Set replaces the faults; offsets are not reset. A Read that is waiting for octets notices the
// change when they arrive.
func (w *Faulty) Set(f Faults) {
	for i, l := range []*lane{&w.in, &w.out} {
		fault := f.In
		if i == 1 {
			fault = f.Out
		}
		l.mu.Lock()
		l.course.begin(fault, f.Seed, uint64(i))
		l.mu.Unlock()
	}
}

// Offsets returns how many octets have passed in each direction.
func (w *Faulty) Offsets() (in, out int64) { return w.in.offset(), w.out.offset() }

func (l *lane) offset() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.course.off
}

// Reset breaks the connection like a TCP reset, at both ends if c can do that.
func (w *Faulty) Reset() {
	w.resetNow.Do(func() {
		close(w.reset)
		switch c := w.Conn.(type) {
		case interface{ Reset() }:
			c.Reset()
			return
		case interface{ SetLinger(sec int) error }:
			_ = c.SetLinger(0) // then Close resets
		}
		_ = w.Conn.Close()
	})
}

// Read implements net.Conn.
func (w *Faulty) Read(p []byte) (int, error) {
	l := &w.in
	l.op.Lock()
	defer l.op.Unlock()
	if len(l.held) == 0 {
		n, late, err := w.receive(p)
		if late == 0 || n == 0 {
			return n, w.told(err)
		}
		l.held = append(l.held, p[:n]...)
		l.due = time.Now().Add(late)
	}
	if err := w.sleep(&l.deadline, max(time.Until(l.due), 0)); err != nil {
		return 0, err
	}
	n := copy(p, l.held)
	l.held = append(l.held[:0], l.held[n:]...)
	return n, nil
}

// receive reads a piece, which Read has to hold back for late.
func (w *Faulty) receive(p []byte) (n int, late time.Duration, err error) {
	l := &w.in
	n = len(p)
	l.mu.Lock()
	cut := l.course.cut()
	if cut == cutNone && n > 0 {
		n = l.course.piece(n)
	}
	l.mu.Unlock()
	if cut != cutNone {
		return 0, 0, w.end(l, cut, false)
	}
	n, err = w.Conn.Read(p[:n])
	l.mu.Lock()
	cut, late = l.course.cut(), l.course.Delay
	if cut == cutNone || n == 0 {
		l.course.pass(p[:n])
		l.mu.Unlock()
		return n, late, err
	}
	l.mu.Unlock() // Set has cut it in the meantime
	return 0, 0, w.end(l, cut, false)
}

// Write implements net.Conn.
func (w *Faulty) Write(p []byte) (n int, err error) {
	w.out.op.Lock()
	defer w.out.op.Unlock()
	if len(p) == 0 {
		n, err = w.Conn.Write(p)
		return n, w.told(err)
	}
	for n < len(p) && err == nil {
		var k int
		k, err = w.send(p[n:])
		n += k
	}
	return n, w.told(err)
}

// send writes a piece of p, which is not empty.
func (w *Faulty) send(p []byte) (int, error) {
	l := &w.out
	l.mu.Lock()
	cut, late := l.course.cut(), l.course.Delay
	if cut == cutNone {
		p = p[:l.course.piece(len(p))]
		if l.course.spoils(len(p)) {
			p = append([]byte(nil), p...)
		}
	}
	l.mu.Unlock()
	if cut != cutNone {
		if err := w.end(l, cut, true); err != nil {
			return 0, err
		}
		return len(p), nil
	}
	if late > 0 {
		if err := w.sleep(&l.deadline, late); err != nil {
			return 0, err
		}
	}
	return w.put(p)
}

// put writes p with its bits flipped; if any are, p is a copy.
func (w *Faulty) put(p []byte) (int, error) {
	l := &w.out
	l.mu.Lock()
	at := l.course.off
	l.course.pass(p)
	l.mu.Unlock()
	n, err := w.Conn.Write(p)
	l.mu.Lock()
	l.course.off = at + int64(n)
	l.mu.Unlock()
	return n, err
}

// end carries out a cut and returns its error, or nil if octets written disappear.
func (w *Faulty) end(l *lane, cut Cut, write bool) error {
	switch {
	case cut == CutReset:
		w.Reset()
	case cut == CutEnd && write:
		if err := w.CloseWrite(); err != nil {
			_ = w.Conn.Close()
		}
	case cut == CutSilence && write:
		return nil
	case cut == CutSilence:
		return w.sleep(&l.deadline, forever)
	}
	return cut.endError(write)
}

// told replaces err by errReset if the connection was reset.
func (w *Faulty) told(err error) error {
	if err != nil && isClosed(w.reset) {
		return errReset
	}
	return err
}

// sleep waits for d, or for ever if d is negative, but not beyond the deadline or the end of the
// connection.
func (w *Faulty) sleep(dl *deadline, d time.Duration) error {
	var over <-chan time.Time
	if d >= 0 {
		t := time.NewTimer(d)
		defer t.Stop()
		over = t.C
	}
	expired := dl.wait()
	select { // a deadline that has passed counts more than d being over
	case <-expired:
		return os.ErrDeadlineExceeded
	default:
	}
	select {
	case <-over:
		return nil
	case <-expired:
		return os.ErrDeadlineExceeded
	case <-w.closed:
		return net.ErrClosed
	case <-w.reset:
		return errReset
	}
}

// CloseWrite implements the half-close of TCP, if the wrapped connection does.
func (w *Faulty) CloseWrite() error { return closeWrite(w.Conn) }

func closeWrite(c net.Conn) error {
	if c, ok := c.(interface{ CloseWrite() error }); ok {
		return c.CloseWrite()
	}
	return errors.ErrUnsupported
}

// Close implements net.Conn.
func (w *Faulty) Close() error {
	w.closing.Do(func() { close(w.closed) })
	return w.Conn.Close()
}

// SetDeadline implements net.Conn.
func (w *Faulty) SetDeadline(t time.Time) error {
	w.in.deadline.set(t)
	w.out.deadline.set(t)
	return w.Conn.SetDeadline(t)
}

// SetReadDeadline implements net.Conn.
func (w *Faulty) SetReadDeadline(t time.Time) error {
	w.in.deadline.set(t)
	return w.Conn.SetReadDeadline(t)
}

// SetWriteDeadline implements net.Conn.
func (w *Faulty) SetWriteDeadline(t time.Time) error {
	w.out.deadline.set(t)
	return w.Conn.SetWriteDeadline(t)
}
