package push

import (
	"context"
	"errors"
	"fmt"

	"github.com/stag-rdma/stag/transport/commitlog"
)

// File is a file at a server without the program, such as an NFS server: the last rung. One
// goroutine at a time calls its methods. The file holds the records in the form that ReadFile
// reads. There is no fencing, so there must be only one writer.
type File interface {
	// ReadAt is like that of [io.ReaderAt], with a context.
	ReadAt(ctx context.Context, p []byte, off int64) (int, error)
	// WriteAt writes p at off. It may leave durability to Commit (NFS WRITE, UNSTABLE). It borrows
	// p.
	WriteAt(ctx context.Context, p []byte, off int64) error
	// Commit makes the writes durable (NFS COMMIT) and returns the level reached. It returns
	// ErrRewrite if the server has lost writes since the last Commit, because its write verifier
	// has changed (RFC 1813 Section 3.3.21).
	Commit(ctx context.Context) (commitlog.Level, error)
}

// Errors of files.
var (
	// ErrRewrite is returned by File.Commit when writes have to be repeated.
	ErrRewrite = errors.New("push: the server has restarted and forgotten writes")
	// ErrFile: the content of a File is not a log, or not the log that was appended to.
	ErrFile = errors.New("push: the file is not a push log (use another file, or inspect it with ReadFile)")
)

// mostRewrites is how often a group is written again if the server loses it.
const mostRewrites = 5

// openFile begins a session on Config.File.
func (s *Session) openFile(ctx context.Context) (lostFunc, error) {
	f := s.cfg.File
	if f == nil {
		return nil, ErrNoProgram
	}
	w := &fileLog{f: f, over: make(chan struct{})}
	a, err := w.recover(ctx)
	if err != nil {
		return nil, err
	}
	base, cancel := context.WithCancel(s.ctx)
	s.now(InFile, key{}, nil, a)
	if _, err := s.p.OpenCarrier(base, w, a); err != nil {
		cancel()
		return nil, err
	}
	return func() error {
		defer cancel()
		select {
		case <-w.over:
			return w.err
		case <-s.ctx.Done():
			return s.ctx.Err()
		}
	}, nil
}

// fileLog carries records to a File.
type fileLog struct {
	f     File
	id    [16]byte
	epoch uint32
	end   int64 // end of the last record
	ring  uint64
	level commitlog.Level
	buf   []byte

	over chan struct{} // closed when err is set
	err  error
}

var _ commitlog.Carrier = (*fileLog)(nil)

// fileRing is the nominal capacity of a file. Nothing in it is ever overwritten, so it only limits
// the octets in flight.
const fileRing = 1 << 30

// recover finds the end of the log, or makes a log, and begins an epoch. The epoch's number is
// durable before any of its records is written, so that what a crash leaves of two sessions never
// looks like one.
func (w *fileLog) recover(ctx context.Context) (*commitlog.Answer, error) {
	found, err := readFile(readerOf{ctx, w.f}, nil)
	switch {
	case errors.Is(err, errNoFile):
		found, err = w.create(ctx)
	case err == nil: // the octets read may not have been committed
		w.level, err = w.f.Commit(ctx)
		if errors.Is(err, ErrRewrite) {
			err = fmt.Errorf("%w: %w", errAgain, err) // read again what is left
		}
	}
	if err != nil {
		return nil, err
	}
	w.id, w.epoch = found.id, found.epoch+1
	b := appendFileEpoch(nil, &w.id, w.epoch, found.next)
	if err := w.write(ctx, b, found.end); err != nil {
		return nil, err
	}
	w.end = found.end + int64(len(b))
	return &commitlog.Answer{
		ID: found.id, Epoch: w.epoch, Capacity: fileRing, Mode: commitlog.WAL, Hash: commitlog.CRC32C,
		Persistent: w.level == commitlog.Persistent, NextSeq: found.next, LastEpoch: found.last,
	}, nil
}

// errAgain: the octets read from the file are no longer valid.
var errAgain = errors.New("push: the file must be read again")

// create makes an empty log.
func (w *fileLog) create(ctx context.Context) (*fileState, error) {
	st := newFileState()
	err := w.write(ctx, st.header(), 0)
	return st, err
}

// write writes b and commits it, and repeats that if the server loses it.
func (w *fileLog) write(ctx context.Context, b []byte, off int64) (err error) {
	for range mostRewrites {
		if err = w.f.WriteAt(ctx, b, off); err != nil {
			return err
		}
		var level commitlog.Level
		level, err = w.f.Commit(ctx)
		if err == nil {
			if level < w.level {
				return fmt.Errorf("%w: it was persistent, but is now only placed", ErrFile)
			}
			w.level = level
			return nil
		}
		if !errors.Is(err, ErrRewrite) {
			return err
		}
	}
	return err
}

// Carry implements commitlog.Carrier.
func (w *fileLog) Carry(ctx context.Context, seq uint64, payloads [][]byte) (head uint64, err error) {
	w.buf = w.buf[:0]
	for i, p := range payloads {
		w.buf = appendFileRecord(w.buf, &w.id, w.epoch, seq+uint64(i), p)
		w.ring = afterRecord(w.ring, len(p))
	}
	if err := w.write(ctx, w.buf, w.end); err != nil {
		w.err = err
		close(w.over)
		return 0, err
	}
	w.end += int64(len(w.buf))
	return w.ring, nil
}

// afterRecord returns where a record of n octets at position at ends in the view of a producer: in
// a ring, in which no record crosses the end.
func afterRecord(at uint64, n int) uint64 {
	size := (uint64(n) + 28 + 63) &^ 63
	if end := fileRing - at%fileRing; end < size {
		at += end
	}
	return at + size
}

// Head implements commitlog.Carrier: there is always room.
func (w *fileLog) Head(context.Context) (uint64, error) { return w.ring, nil }

// readerOf makes a File an io.ReaderAt.
type readerOf struct {
	ctx context.Context
	f   File
}

func (r readerOf) ReadAt(p []byte, off int64) (int, error) { return r.f.ReadAt(r.ctx, p, off) }
