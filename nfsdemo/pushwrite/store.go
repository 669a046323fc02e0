package pushwrite

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"github.com/stag-rdma/stag/nfsdemo/lease"
	"github.com/stag-rdma/stag/nfsdemo/server"
	"github.com/stag-rdma/stag/rdmap/region/pmem"
)

// storeName is the file of the leases in Config.Dir. No log has a file of this name.
const storeName = "leases"

// ErrStore is a file of leases that is damaged, or gone: without it nobody knows which files the
// records of the logs beside it are for.
var ErrStore = errors.New("pushwrite: the file of the leases is damaged or gone (restore it from a copy of this moment; " +
	"if there is none, take it and all logs away: what waits in them is lost)")

// stored is a lease as it is kept.
type stored struct {
	ID    lease.ID
	Log   string
	Grant server.Grant
	Void  bool // its records are not to be applied: somebody has discarded them
}

// store keeps leases in a file (store_format.go): entries are appended, and synced before the
// lease is used.
//
// Behind the last synced entry a crash may leave anything: an entry that is cut off, zeros where
// a file system had given room and not written yet, what stands behind in the file without what
// stands before. No lease of which anybody was told lies there. So that this can be told from
// damage, each write begins with its one grant and is synced: what cannot be read and has a
// grant behind it was synced once.
type store struct {
	path string

	mu   sync.Mutex // held while the file is written and synced
	f    storeFile
	size int
	over []lease.ID // not written yet
	err  error      // final: fsync is not tried again
}

// storeFile is an *os.File that is appended to.
type storeFile interface {
	io.WriteCloser
	Sync() error
}

// openStore reads the leases there are, and writes their file anew, without what a crash has left.
func openStore(dir string) (*store, *leases, error) {
	s := &store{path: filepath.Join(dir, storeName)}
	live, err := readStore(s.path)
	if errors.Is(err, fs.ErrNotExist) {
		live, err = new(leases), nil
	}
	if err != nil {
		return nil, nil, err
	}
	err = s.rewrite(live.snapshot)
	return s, live, err
}

// readStore reads the leases and leaves their file as it is.
func readStore(path string) (*leases, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	live, err := parseStore(b)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return live, nil
}

// grant makes a lease durable, and writes down what is over.
func (s *store) grant(e *stored) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.write(s.appendOver(appendEntry(nil, entryGrant, e))); err != nil {
		return err
	}
	return s.keep(s.f.Sync())
}

// end notes that leases are over. It is written with the next grant, or by settle: what a crash
// forgets of it costs nothing, unless the log of the lease cannot be read afterwards.
func (s *store) end(ids []lease.ID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.over = append(s.over, ids...)
}

// settle makes durable what is over, if no grant has done that.
func (s *store) settle() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.settleLocked()
}

// settleLocked is settle; s.mu is held.
func (s *store) settleLocked() error {
	if len(s.over) == 0 {
		return nil
	}
	if err := s.write(s.appendOver(nil)); err != nil {
		return err
	}
	return s.keep(s.f.Sync())
}

// appendOver appends what is over; s.mu is held.
func (s *store) appendOver(b []byte) []byte {
	for _, id := range s.over {
		b = appendEntry(b, entryOver, &stored{ID: id})
	}
	s.over = nil
	return b
}

// write appends b; s.mu is held.
func (s *store) write(b []byte) error {
	if s.err != nil {
		return s.err
	}
	n, err := s.f.Write(b)
	s.size += n
	return s.keep(err)
}

func (s *store) keep(err error) error {
	if s.err == nil {
		s.err = err
	}
	return s.err
}

// large says whether the file is worth writing anew for n leases.
func (s *store) large(n int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	size := s.size + len(s.over)*overLen
	return s.err == nil && size > 1<<20 && size > 8*n*maxEntry
}

// rewrite writes the file anew, with the leases that snapshot returns alone. While it runs
// no lease becomes durable, so that none is forgotten.
func (s *store) rewrite(snapshot func() ([]stored, lease.ID)) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return s.err
	}
	b := appendStore(snapshot())
	temp := filepath.Join(filepath.Dir(s.path), "."+storeName) // one, whatever crashes leave
	f, err := os.OpenFile(temp, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	if err = errors.Join(err, f.Sync()); err == nil {
		err = os.Rename(temp, s.path)
	}
	if err != nil {
		return errors.Join(err, f.Close(), os.Remove(temp))
	}
	if s.f != nil {
		_ = s.f.Close() // it is nobody's file any more
	}
	s.f, s.size, s.over = f, len(b), nil
	return s.keep(pmem.SyncDir(filepath.Dir(s.path)))
}

func (s *store) close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	_ = s.settleLocked() // costs nothing if it fails, as with end
	if s.err == nil {
		s.err = fs.ErrClosed
	}
	return s.f.Close()
}
