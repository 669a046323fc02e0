package rdmap

import (
	"net"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stag-rdma/stag/rdmap/internal/buf"
)

// roleWire is a link like tcpLink, but without a kernel: with reads that need not wait, and a one-shot watch for input or
// the end. It is for use in a synctest bubble, and fails the test if two goroutines read at the same time.
type roleWire struct {
	*anyLink
	net.Conn // below: a Pipe
	t        *testing.T

	mu       sync.Mutex
	in       []byte
	err      error // how the input ends
	deadline time.Time
	changed  chan struct{} // closed at every change
	known    bool          // registered: watch was called
	watched  *Conn         // nil if not armed
	hup      bool          // armed only for the end

	reading atomic.Int32
}

// newRoleWire returns a roleWire that reads everything from the connection below.
func newRoleWire(t *testing.T, below net.Conn) *roleWire {
	w := &roleWire{Conn: below, t: t, changed: make(chan struct{})}
	w.anyLink = newAnyLink(w)
	go func() {
		buf := make([]byte, 4096)
		for {
			n, err := below.Read(buf)
			w.change(func() { w.in, w.err = append(w.in, buf[:n]...), err })
			if err != nil {
				return
			}
		}
	}()
	return w
}

// change lets f change the wire, and wakes those who wait for that.
func (w *roleWire) change(f func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f()
	close(w.changed)
	w.changed = make(chan struct{})
	if c := w.watched; c != nil && (w.err != nil || !w.hup && len(w.in) > 0) {
		w.watched = nil
		go c.readable()
	}
}

// next returns what has arrived.
func (w *roleWire) next(p []byte) (n int, changed <-chan struct{}, deadline time.Time, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case !w.deadline.IsZero() && !time.Now().Before(w.deadline):
		err = os.ErrDeadlineExceeded
	case len(w.in) > 0:
		n = copy(p, w.in)
		w.in = w.in[n:]
	default:
		err = w.err
	}
	return n, w.changed, w.deadline, err
}

func (w *roleWire) Read(p []byte) (int, error) {
	for {
		n, changed, deadline, err := w.next(p)
		if n > 0 || err != nil {
			return n, err
		}
		var late <-chan time.Time
		if !deadline.IsZero() {
			late = time.After(time.Until(deadline))
		}
		select {
		case <-changed:
		case <-late:
		}
	}
}

func (w *roleWire) SetReadDeadline(t time.Time) error {
	w.change(func() { w.deadline = t })
	return nil
}

func (w *roleWire) SetDeadline(t time.Time) error {
	_ = w.SetReadDeadline(t)
	return w.Conn.SetWriteDeadline(t)
}

func (w *roleWire) Close() error {
	w.change(func() { w.err = net.ErrClosed })
	return w.Conn.Close()
}

func (w *roleWire) CloseWrite() error { return w.Conn.(interface{ CloseWrite() error }).CloseWrite() }

// read implements link.
func (w *roleWire) read(c *Conn, wait bool) (int, error) {
	if w.reading.Add(1) > 1 {
		w.t.Error("two goroutines read at the same time")
	}
	defer w.reading.Add(-1)
	if wait {
		return w.anyLink.read(c, true)
	}
	var p [300]byte
	n, _, _, err := w.next(p[:])
	if n == 0 {
		if err != nil {
			err = readError(err)
		}
		return 0, err
	}
	if c.st == nil {
		c.st = buf.NewStaging(buf.Big)
	}
	st, buf := c.st.Room(max(n, c.df.Need(c.st.Pending())))
	c.st = st
	if len(buf) < n {
		w.t.Errorf("%d octets of room for %d", len(buf), n)
	}
	st.W += copy(buf, p[:n])
	return n, nil
}

func (w *roleWire) watch(c *Conn) {
	w.change(func() { w.watched, w.hup, w.known = c, false, true })
}

func (w *roleWire) unwatch(c *Conn) {
	w.change(func() {
		if w.known {
			w.watched, w.hup = c, true
		}
	})
}

func (w *roleWire) forget(*Conn) { w.change(func() { w.watched, w.known = nil, false }) }
