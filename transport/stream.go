package transport

import (
	"net"
	"sync"
	"time"

	"github.com/stag-rdma/stag/transport/internal/gate"
	"github.com/stag-rdma/stag/transport/internal/mem"
	"github.com/stag-rdma/stag/xdr"
)

// recordWriter writes records, each in one fragment and one system call. It is safe
// for concurrent use.
type recordWriter struct {
	mu   sync.Mutex
	conn net.Conn
	head []byte
	vec  [4][]byte
}

// write sends the record head + a + b + c. It borrows all of them until it returns.
func (w *recordWriter) write(head, a, b, c []byte) (int, error) {
	n := len(head) + len(a) + len(b) + len(c)
	if n > xdr.MaxFragment {
		return 0, errTooBig
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.head = xdr.AppendRecordMark(w.head[:0], n, true)
	w.head = append(w.head, head...)
	w.vec = [4][]byte{w.head, a, b, c}
	bufs := net.Buffers(w.vec[:])
	if err := w.conn.SetWriteDeadline(time.Now().Add(streamPatience + time.Duration(n/gate.MinRate)*time.Second)); err != nil {
		return 0, err
	}
	_, err := bufs.WriteTo(w.conn)
	w.vec = [4][]byte{}
	return n, err
}

// readRecord reads one record into pooled memory. hint is the expected size.
func readRecord(r *xdr.RecordReader, p *mem.Pool, hint int) (*mem.Buffer, []byte, error) {
	b := p.Get(hint)
	rec, err := r.Next(b.Data[:0])
	if err != nil {
		b.Release()
		return nil, nil, err
	}
	if cap(rec) > len(b.Data) {
		b.Release()
		b = p.Adopt(rec)
	}
	return b, rec, nil
}
