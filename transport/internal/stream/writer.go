package stream

import (
	"context"
	"crypto/tls"
	"net"
	"runtime"
	"sync"
	"sync/atomic"
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

// Writer writes records, each in one fragment and, if the peer reads, one system call. Short ones that are ready together
// share one: who comes while somebody writes queues his, and goes on. It is safe for concurrent use.
type Writer struct {
	// Stuck, if it is not nil, is called when a record has been written for a while and the peer takes no more of it: it
	// may do so when its answers are read. What it returns is called when the record is written.
	Stuck func() (over func())
	// Failed is called with the error of a write of queued records, of which nobody else learns. It must be set before Share
	// is called.
	Failed func(error)

	conn  net.Conn
	raw   rawWriter
	turn  chan struct{} // has a token while somebody writes
	waits atomic.Int32  // who wait for it: nobody gets ahead of them by queueing
	head  []byte
	vec   [5][]byte

	mu     sync.Mutex
	shared bool           // records are queued for who has the turn
	queue  *memory.Buffer // these records; nil: none
	queued int            // octets of them
	armed  bool           // a write deadline is set
	late   time.Time      // by Hurry: when the record has to be written; zero: when its time is over
}

// queueSize is the most octets that wait for the next write.
const queueSize = 16 << 10

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
	w.waits.Add(1)
	defer w.waits.Add(-1)
	select {
	case w.turn <- struct{}{}:
		return true
	case <-ctx.Done():
		return false
	}
}

// Unlock ends the turn. If records were queued during the last write, a goroutine has the turn until they are written too:
// who has made one call must not write those of others for as long as these come.
func (w *Writer) Unlock() {
	if w.unshare(false) {
		<-w.turn
		return
	}
	go func() {
		defer func() {
			if v := recover(); v != nil { // of the connection
				w.Failed(panicked(v))
			}
			w.unshare(true)
			<-w.turn
		}()
		for !w.unshare(false) {
			runtime.Gosched() // as in Share
			if err := w.write(time.Time{}, 0); err != nil {
				w.Failed(err)
				return
			}
		}
	}()
}

// unshare ends Share if nothing is queued, or if what is queued shall be lost. It reports whether it has.
func (w *Writer) unshare(lost bool) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.queue != nil && !lost {
		return false
	}
	if w.queue != nil {
		w.queue.Release()
	}
	w.shared, w.queue, w.queued = false, nil, 0
	return true
}

// Share has records queued for who has the turn, until he ends it. If his own is short, of n octets, and others are to be
// expected, he first lets those go on that are ready to run: the next records are probably theirs. Without that, of 32 calls
// that were passed on in one go each had a system call, which costs as much as all else that is done for it here.
func (w *Writer) Share(n int, others bool) {
	w.mu.Lock()
	w.shared = true
	w.mu.Unlock()
	if others && n <= smallRecord {
		runtime.Gosched()
	}
}

// Takes reports whether a record of about n octets will probably be queued.
func (w *Writer) Takes(n int) bool {
	if n > smallRecord || w.waits.Load() > 0 {
		return false
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.shared && w.queued+n <= queueSize
}

// Queue leaves the record head + a + b + c to who has the turn, if it is short and he shares the turn. Then it has a copy.
// Otherwise it returns false.
func (w *Writer) Queue(head, a, b, c []byte) bool {
	n := len(head) + len(a) + len(b) + len(c)
	if n > smallRecord || w.waits.Load() > 0 {
		return false
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.shared || w.queued+MarkSize+n > queueSize {
		return false
	}
	if w.queue == nil {
		w.queue = memory.Shared.Get(queueSize)
	}
	q := xdr.AppendRecordMark(w.queue.Data[:w.queued], n, true)
	w.queued = len(append(append(append(append(q, head...), a...), b...), c...))
	return true
}

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

// arm sets the write deadline: the peer may have to be waited for. From then on nothing is queued: calls behind a write that
// waits end with their contexts, and have not been sent.
func (w *Writer) arm(limit time.Time) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.armed, w.shared = true, false
	if !w.late.IsZero() && w.late.Before(limit) {
		limit = w.late
	}
	return w.conn.SetWriteDeadline(limit)
}

// Write sends the record head + a + b + c, or queues it. It borrows all of them until it returns. others says that more
// records are to be expected now.
func (w *Writer) Write(others bool, head, a, b, c []byte) (int, error) {
	n := len(head) + len(a) + len(b) + len(c)
	if w.Queue(head, a, b, c) {
		return n, nil
	}
	w.Lock(context.Background())
	defer w.Unlock()
	w.Share(n, others)
	return w.WriteLocked(time.Time{}, head, a, b, c)
}

// WriteLocked writes the record head + a + b + c, and those that are queued, for who has the turn. It fails at until, if
// that is not zero and before the peer has had all of its time.
func (w *Writer) WriteLocked(until time.Time, head, a, b, c []byte) (_ int, err error) {
	n := len(head) + len(a) + len(b) + len(c)
	if n > xdr.MaxFragment {
		return 0, ErrTooBig
	}
	w.head = xdr.AppendRecordMark(w.head[:0], n, true)
	w.head = append(w.head, head...)
	w.vec = [...][]byte{w.head, a, b, c, nil}
	whole := false
	defer func() {
		w.vec = [...][]byte{4: nil}
		if !whole { // perhaps half a record: nothing can follow
			w.unshare(true)
		}
	}()
	err = w.write(until, n)
	whole = err == nil
	return n, err
}

// write writes n octets of vec, and what is queued.
func (w *Writer) write(until time.Time, n int) error {
	w.mu.Lock()
	if q := w.queue; q != nil {
		w.vec[4] = q.Data[:w.queued]
		n += w.queued
		w.queue, w.queued = nil, 0
		defer func() {
			w.vec[4] = nil
			q.Release()
		}()
	}
	w.mu.Unlock()
	if w.raw.can() {
		return w.raw.write(until, n)
	}
	if err := w.arm(limitOf(until, n)); err != nil {
		return err
	}
	bufs := net.Buffers(w.vec[:])
	_, err := bufs.WriteTo(w.conn)
	Written(w.conn)
	return err
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
