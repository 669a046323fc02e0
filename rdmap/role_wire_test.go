package rdmap

import (
	"net"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stag-rdma/stag/rdmap/internal/drive"
)

// roleWire is a link like tcpLink, but without a kernel: with reads that need not wait, and a one-shot watch for input or
// the end. It is for use in a synctest bubble, and fails the test if two goroutines read at the same time.
type roleWire struct {
	net.Conn // below: a Pipe
	t        *testing.T

	mu       sync.Mutex
	in       []byte
	err      error // how the input ends
	deadline time.Time
	changed  chan struct{} // closed at every change
	known    bool          // registered: watch was called
	watched  func()        // nil if not armed
	hup      bool          // armed only for the end
	ready    func()

	reading atomic.Int32
}

// newRoleWire returns a roleWire that reads everything from the connection below.
func newRoleWire(t *testing.T, below net.Conn) *roleWire {
	w := &roleWire{Conn: below, t: t, changed: make(chan struct{})}
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
	if ready := w.watched; ready != nil && (w.err != nil || !w.hup && len(w.in) > 0) {
		w.watched = nil
		go ready()
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

// roleLink is a roleWire as a drive.Link.
type roleLink struct {
	*drive.Stream
	w *roleWire
}

func newRoleLink(w *roleWire) roleLink { return roleLink{drive.NewStream(w), w} }

// Read implements drive.Link.
func (l roleLink) Read(to drive.Source, wait, poll bool) (int, error) {
	if l.w.reading.Add(1) > 1 {
		l.w.t.Error("two goroutines read at the same time")
	}
	defer l.w.reading.Add(-1)
	if wait {
		return l.Stream.Read(to, true, poll)
	}
	room, _ := to.Room(false)
	n, _, _, err := l.w.next(room[:min(len(room), 300)])
	to.Got(n)
	if n == 0 && err != nil {
		err = drive.ReadError(err)
	}
	return n, err
}

func (l roleLink) CloseWrite() bool {
	return l.w.Conn.(interface{ CloseWrite() error }).CloseWrite() == nil
}

func (l roleLink) Watch(ready func()) bool {
	l.w.change(func() { l.w.watched, l.w.ready, l.w.hup, l.w.known = ready, ready, false, true })
	return true
}

func (l roleLink) Unwatch() {
	l.w.change(func() {
		if l.w.known {
			l.w.watched, l.w.hup = l.w.ready, true
		}
	})
}

func (l roleLink) Forget() { l.w.change(func() { l.w.watched, l.w.known = nil, false }) }
