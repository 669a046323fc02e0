package rdmaptest

import (
	"io"
	"net"
	"os"
	"sync"
	"time"
)

// pipeBuffer is how many octets a Pipe buffers in each direction.
const pipeBuffer = 256 << 10

// Conn is one end of a Pipe. It implements net.Conn with deadlines and CloseWrite,
// like a TCP connection with a fixed buffer.
type Conn struct {
	in, out *half
	name    string
}

var _ net.Conn = (*Conn)(nil)

// Pipe returns the two ends of a connection in memory that buffers pipeBuffer
// octets each way.
func Pipe() (a, b *Conn) { return PipeSize(pipeBuffer) }

// PipeSize is Pipe with a buffer of n octets in each direction; less than 1 means 1.
func PipeSize(n int) (a, b *Conn) {
	x, y := newHalf(n), newHalf(n)
	return &Conn{x, y, "a"}, &Conn{y, x, "b"}
}

// Read implements net.Conn.
func (c *Conn) Read(p []byte) (int, error) { return c.in.read(p) }

// Write implements net.Conn.
func (c *Conn) Write(p []byte) (int, error) { return c.out.write(p) }

// Close implements net.Conn: the peer reads what is buffered, then io.EOF.
func (c *Conn) Close() error {
	c.in.closeRead()
	c.out.closeWrite()
	c.in.readDeadline.stop()
	c.out.writeDeadline.stop()
	return nil
}

// CloseWrite ends the output of this end. Its input is not affected.
func (c *Conn) CloseWrite() error {
	c.out.closeWrite()
	return nil
}

// Reset breaks the connection like a TCP reset: buffered octets are lost.
func (c *Conn) Reset() {
	c.in.reset()
	c.out.reset()
}

// LocalAddr implements net.Conn.
func (c *Conn) LocalAddr() net.Addr { return addr(c.name) }

// RemoteAddr implements net.Conn.
func (c *Conn) RemoteAddr() net.Addr {
	if c.name == "a" {
		return addr("b")
	}
	return addr("a")
}

// SetDeadline implements net.Conn.
func (c *Conn) SetDeadline(t time.Time) error {
	c.in.readDeadline.set(t)
	c.out.writeDeadline.set(t)
	return nil
}

// SetReadDeadline implements net.Conn.
func (c *Conn) SetReadDeadline(t time.Time) error {
	c.in.readDeadline.set(t)
	return nil
}

// SetWriteDeadline implements net.Conn.
func (c *Conn) SetWriteDeadline(t time.Time) error {
	c.out.writeDeadline.set(t)
	return nil
}

type addr string

func (addr) Network() string  { return "pipe" }
func (a addr) String() string { return string(a) }

// half is one direction of a Pipe.
type half struct {
	mu      sync.Mutex
	buf     []byte
	max     int
	eof     bool // the writer has closed
	gone    bool // the reader has closed
	broken  bool
	changed chan struct{} // closed at every change

	readDeadline, writeDeadline deadline
}

func newHalf(n int) *half {
	h := &half{max: max(n, 1), changed: make(chan struct{})}
	h.readDeadline.init()
	h.writeDeadline.init()
	return h
}

// change wakes all waiters, with mu held.
func (h *half) change() {
	close(h.changed)
	h.changed = make(chan struct{})
}

func (h *half) read(p []byte) (int, error) {
	for {
		expired := h.readDeadline.wait()
		h.mu.Lock()
		changed := h.changed
		switch {
		case h.gone:
			h.mu.Unlock()
			return 0, io.ErrClosedPipe
		case isClosed(expired):
			h.mu.Unlock()
			return 0, os.ErrDeadlineExceeded
		case h.broken:
			h.mu.Unlock()
			return 0, errReset
		case len(p) == 0:
			h.mu.Unlock()
			return 0, nil
		case len(h.buf) > 0:
			n := copy(p, h.buf)
			h.buf = append(h.buf[:0], h.buf[n:]...)
			h.change()
			h.mu.Unlock()
			return n, nil
		case h.eof:
			h.mu.Unlock()
			return 0, io.EOF
		}
		h.mu.Unlock()
		select {
		case <-changed:
		case <-expired:
		}
	}
}

func (h *half) write(p []byte) (n int, err error) {
	for {
		expired := h.writeDeadline.wait()
		h.mu.Lock()
		changed := h.changed
		switch {
		case h.eof:
			h.mu.Unlock()
			return n, io.ErrClosedPipe
		case isClosed(expired):
			h.mu.Unlock()
			return n, os.ErrDeadlineExceeded
		case h.gone || h.broken:
			h.mu.Unlock()
			return n, errReset
		}
		if k := min(len(p), h.max-len(h.buf)); k > 0 {
			h.buf = append(h.buf, p[:k]...)
			n, p = n+k, p[k:]
			h.change()
		}
		h.mu.Unlock()
		if len(p) == 0 {
			return n, nil
		}
		select {
		case <-changed:
		case <-expired:
		}
	}
}

func (h *half) closeRead() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.gone {
		h.gone, h.buf = true, nil
		h.change()
	}
}

func (h *half) closeWrite() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.eof {
		h.eof = true
		h.change()
	}
}

func (h *half) reset() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.broken, h.buf = true, nil
	h.change()
}

func isClosed(ch <-chan struct{}) bool {
	select {
	case <-ch:
		return true
	default:
		return false
	}
}
