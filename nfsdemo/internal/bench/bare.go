package bench

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"

	"github.com/stag-rdma/stag/internal/accept"
	"github.com/stag-rdma/stag/internal/measure"
	"github.com/stag-rdma/stag/rdmap/region/pmem"
)

// bareRecord and bareAnswer are the octets of a pushed write: a header of 64 octets and the
// payload, on the wire and in the log, and the answer that says that it is durable.
const bareRecord, bareAnswer = 64 + payload, 92

// bare is the least that a durable write over a network costs: records over plain TCP, each
// made durable in a ring of its connection before it is answered. Nothing is checked or applied.
type bare struct {
	l  net.Listener
	wg sync.WaitGroup
}

// newBare serves l, with the rings in dir.
func newBare(l net.Listener, dir string) *bare {
	b := &bare{l: l}
	b.wg.Go(func() {
		var conns []net.Conn
		_ = accept.Serve(context.Background(), l, func(c net.Conn) {
			ring := filepath.Join(dir, "bare."+strconv.Itoa(len(conns)))
			conns = append(conns, c)
			b.wg.Go(func() {
				_ = serveBare(c, ring) // on an error, the peer sees the end
				c.Close()              //nolint:errcheck // nothing is under way
			})
		})
		for _, c := range conns {
			c.Close() //nolint:errcheck // it ends serveBare
		}
	})
	return b
}

// serveBare answers the records of c.
func serveBare(c net.Conn, ring string) (err error) {
	if err := pmem.Create(ring, ringSize, nil); err != nil {
		return err
	}
	m, err := pmem.Open(pmem.File, ring, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, m.Close(), os.Remove(ring)) }()
	answer := make([]byte, bareAnswer)
	for off := 0; ; off += bareRecord {
		if off+bareRecord > ringSize {
			off = 0
		}
		if _, err := io.ReadFull(c, m.Bytes()[off:off+bareRecord]); err != nil {
			return err
		}
		if err := m.Persist(off, bareRecord); err != nil {
			return err
		}
		if _, err := c.Write(answer); err != nil {
			return err
		}
	}
}

func (b *bare) close() {
	b.l.Close() //nolint:errcheck // it ends Accept
	b.wg.Wait()
}

// bareWriter writes to a bare.
type bareWriter struct {
	net.Conn
	out, in []byte
}

// byBare writes records to addr.
func byBare(addr string) dialer {
	return func(int) (writer, error) {
		c, err := measure.Dial(addr)
		if err != nil {
			return nil, err
		}
		w := &bareWriter{c, make([]byte, bareRecord), make([]byte, bareAnswer)}
		if err := w.write(w.out[:payload]); err != nil { // the ring exists when this is answered
			c.Close() //nolint:errcheck // the first error counts
			return nil, err
		}
		return w, nil
	}
}

func (w *bareWriter) write(p []byte) error {
	copy(w.out[bareRecord-payload:], p)
	if _, err := w.Write(w.out); err != nil {
		return err
	}
	_, err := io.ReadFull(w, w.in)
	return err
}

func (w *bareWriter) apply() error { return nil }
func (w *bareWriter) close()       { w.Conn.Close() } //nolint:errcheck // every answer is there
