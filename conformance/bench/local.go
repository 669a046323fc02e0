package bench

import (
	"errors"
	"io"
	"net"
	"os"
	"time"
)

// localWriter writes 4 KiB and makes them durable, as a process does that keeps its log
// itself: over zeros that are there, or at the end of a file that grows.
type localWriter struct {
	f      *os.File
	off    int64
	extend bool
	buf    [commitPayload]byte
}

func newLocalWriter(dir string, extend bool) (*localWriter, error) {
	f, err := os.CreateTemp(dir, "local")
	if err != nil {
		return nil, err
	}
	if !extend {
		if _, err = f.Write(make([]byte, commitRing)); err == nil {
			err = f.Sync()
		}
	}
	return &localWriter{f: f, extend: extend}, err
}

func (w *localWriter) write() error {
	if _, err := w.f.WriteAt(w.buf[:], w.off); err != nil {
		return err
	}
	if w.off += commitPayload; !w.extend {
		w.off %= commitRing
	}
	return fdatasync(w.f)
}

func (w *localWriter) close() {
	w.f.Close()
	os.Remove(w.f.Name())
}

func localLatency(dir string, extend bool, n int) (float64, error) {
	w, err := newLocalWriter(dir, extend)
	if err != nil {
		return 0, err
	}
	defer w.close()
	return medianOf(n, w.write)
}

func localRate(dir string, k int, dur time.Duration) (float64, error) {
	ws := make([]*localWriter, k)
	for i := range ws {
		w, err := newLocalWriter(dir, false)
		if err != nil {
			return 0, err
		}
		defer w.close()
		ws[i] = w
	}
	return writers(k, dur, func(i int) error { return ws[i].write() })
}

// serveBare is what a durable append over a network costs at the least: it reads 4 KiB,
// writes them as localWriter does, and answers.
func serveBare(c net.Conn, dir string) error {
	defer c.Close()
	w, err := newLocalWriter(dir, false)
	if err != nil {
		return err
	}
	defer w.close()
	reply := make([]byte, commitReply)
	for {
		switch _, err := io.ReadFull(c, w.buf[:]); {
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
