package bench

import (
	"errors"
	"io"
	"net"
	"os"
	"time"
	"unsafe"
)

// placing is where a localWriter writes.
type placing uint8

const (
	overwrite placing = iota // over existing zeros
	extend                   // at the end of a file that grows
	direct                   // over zeros, past the page cache if the file system supports that
)

// localWriter writes 4 KiB and makes them durable, like a process that keeps its own log.
type localWriter struct {
	f       *os.File
	off     int64
	how     placing
	through bool // a write is durable when it returns
	buf     []byte
}

func newLocalWriter(dir string, how placing) (*localWriter, error) {
	f, err := os.CreateTemp(dir, "local")
	if err != nil {
		return nil, err
	}
	if how != extend {
		if _, err = f.Write(make([]byte, commitRing)); err == nil {
			err = f.Sync()
		}
	}
	w := &localWriter{f: f, how: how, buf: pages(commitPayload)}
	if how == direct {
		w.through = throughCache(f)
	}
	return w, err
}

// pages returns n octets aligned to 4096, as direct writes need.
func pages(n int) []byte {
	const page = 4096
	b := make([]byte, n+page)
	at := int(-uintptr(unsafe.Pointer(unsafe.SliceData(b))) % page)
	return b[at : at+n]
}

func (w *localWriter) write() error {
	if _, err := w.f.WriteAt(w.buf, w.off); err != nil {
		return err
	}
	if w.off += commitPayload; w.how != extend {
		w.off %= commitRing
	}
	if w.through {
		return nil
	}
	return fdatasync(w.f)
}

func (w *localWriter) close() {
	w.f.Close()
	os.Remove(w.f.Name())
}

func localLatency(dir string, how placing, n int) (float64, error) {
	w, err := newLocalWriter(dir, how)
	if err != nil {
		return 0, err
	}
	defer w.close()
	return medianOf(n, w.write)
}

func localRate(dir string, k int, dur time.Duration) (float64, error) {
	ws := make([]*localWriter, k)
	for i := range ws {
		w, err := newLocalWriter(dir, overwrite)
		if err != nil {
			return 0, err
		}
		defer w.close()
		ws[i] = w
	}
	return writers(k, dur, func(i int) error { return ws[i].write() })
}

// serveBare is the least that a durable append over a network costs: it reads 4 KiB, writes them as
// localWriter does, and answers.
func serveBare(c net.Conn, dir string, how placing) error {
	defer c.Close()
	w, err := newLocalWriter(dir, how)
	if err != nil {
		return err
	}
	defer w.close()
	reply := make([]byte, commitReply)
	for {
		switch _, err := io.ReadFull(c, w.buf); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
		if err := w.write(); err != nil {
			return err
		}
		if _, err := c.Write(reply); err != nil {
			return err
		}
	}
}
