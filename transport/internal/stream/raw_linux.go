package stream

import (
	"errors"
	"net"
	"os"
	"syscall"
	"time"

	"github.com/stag-rdma/stag/internal/quick"
	"github.com/stag-rdma/stag/internal/reading"
	"golang.org/x/sys/unix"
)

// stuckTime is after how long the peer is taken not to read.
const stuckTime = 5 * time.Millisecond

// rawWriter writes records of a Writer to TCP without telling the scheduler (package quick), and sets no deadline unless it
// has to wait. The zero one cannot.
type rawWriter struct {
	w     *Writer
	conn  syscall.RawConn
	fn    func(fd uintptr) bool // try, made once: a closure per record would be an allocation each
	out   quick.Vectors
	left  [][]byte
	until time.Time
	size  int
	limit time.Time // zero: there was no need to wait
	err   error
}

func (r *rawWriter) open(w *Writer) {
	if tc, ok := w.conn.(*net.TCPConn); ok {
		if rc, err := tc.SyscallConn(); err == nil {
			r.w, r.conn, r.fn = w, rc, r.try
		}
	}
}

func (r *rawWriter) can() bool { return r.conn != nil }

// write writes what the Writer has in vec.
func (r *rawWriter) write(until time.Time, size int) error {
	w := r.w
	r.left, r.until, r.size, r.limit, r.err = w.vec[:], until, size, time.Time{}, nil
	err := r.conn.Write(r.fn)
	if w.Stuck != nil && errors.Is(err, os.ErrDeadlineExceeded) && time.Now().Before(r.limit) {
		defer w.Stuck()()
		if err = w.arm(r.limit); err == nil {
			err = r.conn.Write(r.fn)
		}
	}
	if w.armed {
		w.mu.Lock()
		w.armed = false
		w.mu.Unlock()
		_ = w.conn.SetWriteDeadline(time.Time{}) // fails only on a closed connection
	}
	if err == nil {
		err = r.err
	}
	if e, ok := errors.AsType[*net.OpError](err); ok {
		e.Op = "write"
	} else if err != nil {
		err = &net.OpError{Op: "write", Net: "tcp", Source: w.conn.LocalAddr(), Addr: w.conn.RemoteAddr(), Err: os.NewSyscallError("write", err)}
	}
	return err
}

// try writes until all is written or the socket is full.
func (r *rawWriter) try(fd uintptr) bool {
	for {
		for len(r.left) > 0 && len(r.left[0]) == 0 {
			r.left = r.left[1:]
		}
		if len(r.left) == 0 {
			return true
		}
		n, err := r.out.Write(int(fd), r.left, 0)
		switch {
		case n > 0:
		case errors.Is(err, unix.EAGAIN):
			if r.limit.IsZero() {
				r.limit = limitOf(r.until, r.size)
				first := r.limit
				if r.w.Stuck != nil {
					first = time.Now().Add(stuckTime)
				}
				_ = r.w.arm(first) // fails only on a closed connection
			}
			return false
		default:
			r.err = err
			return true
		}
		for n > 0 {
			k := min(n, len(r.left[0]))
			r.left[0] = r.left[0][k:]
			if n -= k; len(r.left[0]) == 0 {
				r.left = r.left[1:]
			}
		}
	}
}

// rawReader reads from TCP without telling the scheduler.
type rawReader struct {
	conn net.Conn
	link *reading.TCP
	p    []byte
}

// newRawReader returns nil if conn cannot be read so.
func newRawReader(conn net.Conn) *rawReader {
	if tc, ok := conn.(*net.TCPConn); ok {
		if l := reading.NewTCP(tc); l != nil {
			return &rawReader{conn: conn, link: l}
		}
	}
	return nil
}

// Read implements io.Reader, for one reader at a time.
func (r *rawReader) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	r.p = p
	n, err := r.link.Read(r, true)
	r.p = nil
	if errors.Is(err, reading.ErrInterrupted) {
		err = &net.OpError{Op: "read", Net: "tcp", Source: r.conn.LocalAddr(), Addr: r.conn.RemoteAddr(), Err: os.ErrDeadlineExceeded}
	}
	return n, asRead(r.conn, err)
}

// Room and Got implement reading.Source.
func (r *rawReader) Room(bool) ([]byte, [][]byte) { return r.p, nil }
func (r *rawReader) Got(int)                      {}
