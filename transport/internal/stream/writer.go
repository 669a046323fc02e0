package stream

import (
	"context"
	"crypto/tls"
	"net"
	"sync"
	"time"

	"github.com/stag-rdma/stag/transport/internal/admit"
	"github.com/stag-rdma/stag/xdr"
)

// Patience is how long a peer may take for the rest of a record that it has begun, or for
// reading one, besides the time that its octets may take.
const Patience = 30 * time.Second

// Allowance returns the time that a peer may take for n octets of a record.
func Allowance(n int) time.Duration {
	return Patience + time.Duration(n/admit.MinRate)*time.Second
}

// Writer writes records, each in one fragment and, if the peer reads, one system call. It is safe for concurrent use.
type Writer struct {
	// Stuck, if it is not nil, is called when a record has been written for a while and the peer takes no more of it: it
	// may do so when its answers are read. What it returns is called when the record is written.
	Stuck func() (over func())

	conn net.Conn
	raw  rawWriter
	turn chan struct{} // has a token while somebody writes
	head []byte
	vec  [4][]byte

	mu    sync.Mutex
	armed bool      // a write deadline is set
	late  time.Time // by Hurry: when the record has to be written; zero: when its time is over
}

// NewWriter returns a writer to conn.
func NewWriter(conn net.Conn) *Writer {
	w := &Writer{conn: conn, turn: make(chan struct{}, 1)}
	w.raw.open(w)
	return w
}

// TryLock takes the turn to write if nobody has it.
func (w *Writer) TryLock() bool {
	select {
	case w.turn <- struct{}{}:
		return true
	default:
		return false
	}
}

// Lock waits for the turn to write: as long as peers take to read what others write. It returns false if ctx ends first.
func (w *Writer) Lock(ctx context.Context) bool {
	if w.TryLock() {
		return true
	}
	select {
	case w.turn <- struct{}{}:
		return true
	case <-ctx.Done():
		return false
	}
}

// Unlock ends the turn.
func (w *Writer) Unlock() { <-w.turn }

// Hurry leaves the record that is written next little time when ctx has ended. Who has the turn calls it, and what it
// returns before he ends the turn.
func (w *Writer) Hurry(ctx context.Context) (end func()) {
	told := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(told)
		w.mu.Lock()
		defer w.mu.Unlock()
		w.late = time.Now().Add(lateWrite)
		if w.armed {
			_ = w.conn.SetWriteDeadline(w.late) // fails only on a closed connection
		}
	})
	return func() {
		if !stop() {
			<-told // not into the turn of another call
			w.late = time.Time{}
		}
	}
}

// arm sets the write deadline.
func (w *Writer) arm(limit time.Time) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.armed = true
	if !w.late.IsZero() && w.late.Before(limit) {
		limit = w.late
	}
	return w.conn.SetWriteDeadline(limit)
}

// Write sends the record head + a + b + c. It borrows all of them until it returns.
func (w *Writer) Write(head, a, b, c []byte) (int, error) {
	w.turn <- struct{}{}
	defer w.Unlock()
	return w.WriteLocked(time.Time{}, head, a, b, c)
}

// WriteLocked is Write for who has the turn. It fails at until, if that is not zero and before the peer has had all of its
// time.
func (w *Writer) WriteLocked(until time.Time, head, a, b, c []byte) (int, error) {
	n := len(head) + len(a) + len(b) + len(c)
	if n > xdr.MaxFragment {
		return 0, ErrTooBig
	}
	w.head = xdr.AppendRecordMark(w.head[:0], n, true)
	w.head = append(w.head, head...)
	w.vec = [4][]byte{w.head, a, b, c}
	defer func() { w.vec = [4][]byte{} }()
	if w.raw.can() {
		return n, w.raw.write(until, n)
	}
	if err := w.arm(limitOf(until, n)); err != nil {
		return 0, err
	}
	bufs := net.Buffers(w.vec[:])
	_, err := bufs.WriteTo(w.conn)
	Written(w.conn)
	return n, err
}

// limitOf returns when the peer must have read a record of n octets.
func limitOf(until time.Time, n int) time.Time {
	limit := time.Now().Add(Allowance(n))
	if !until.IsZero() && until.Before(limit) {
		return until
	}
	return limit
}

// Written removes the write deadline of a connection within TLS: if it passed while the connection is idle, what TLS writes
// on its own behalf (a KeyUpdate) would fail, and break the connection for good.
func Written(conn net.Conn) {
	if t, ok := conn.(*tls.Conn); ok {
		_ = t.SetWriteDeadline(time.Time{}) // fails only on a closed connection
	}
}
