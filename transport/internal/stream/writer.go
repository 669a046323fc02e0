package stream

import (
	"context"
	"crypto/tls"
	"net"
	"time"

	"github.com/stag-rdma/stag/transport/internal/admit"
	"github.com/stag-rdma/stag/transport/internal/memory"
	"github.com/stag-rdma/stag/xdr"
)

// Patience is how long a peer may take for the rest of a record that it has begun, or for
// reading one, besides the time that its octets may take.
const Patience = 30 * time.Second

// Allowance returns the time that a peer may take for n octets of a record.
func Allowance(n int) time.Duration {
	return Patience + time.Duration(n/admit.MinRate)*time.Second
}

// Writer writes records, each in one fragment and one system call. It is safe
// for concurrent use.
type Writer struct {
	conn net.Conn
	turn chan struct{} // has a token while somebody writes
	head []byte
	vec  [4][]byte
}

// NewWriter returns a writer to conn.
func NewWriter(conn net.Conn) *Writer { return &Writer{conn: conn, turn: make(chan struct{}, 1)} }

// Lock waits for the turn to write: as long as peers take to read what others write. It returns false if ctx ends first.
func (w *Writer) Lock(ctx context.Context) bool {
	select {
	case w.turn <- struct{}{}:
		return true
	default:
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
	bufs := net.Buffers(w.vec[:])
	limit := time.Now().Add(Allowance(n))
	if !until.IsZero() && until.Before(limit) {
		limit = until
	}
	if err := w.conn.SetWriteDeadline(limit); err != nil {
		return 0, err
	}
	_, err := bufs.WriteTo(w.conn)
	Written(w.conn)
	w.vec = [4][]byte{}
	return n, err
}

// Written removes the write deadline of a connection within TLS: if it passed while the connection is idle, what TLS writes
// on its own behalf (a KeyUpdate) would fail, and break the connection for good.
func Written(conn net.Conn) {
	if t, ok := conn.(*tls.Conn); ok {
		_ = t.SetWriteDeadline(time.Time{}) // fails only on a closed connection
	}
}

// Read reads one record into pooled memory. hint is the expected size.
func Read(r *xdr.RecordReader, p *memory.Pool, hint int) (*memory.Buffer, []byte, error) {
	b := p.Get(hint)
	kept := false
	defer func() { // also if the connection panics
		if !kept {
			b.Release()
		}
	}()
	rec, err := r.Next(b.Data[:0])
	if err != nil {
		return nil, nil, err
	}
	if cap(rec) > len(b.Data) {
		return p.Adopt(rec), rec, nil
	}
	kept = true
	return b, rec, nil
}
