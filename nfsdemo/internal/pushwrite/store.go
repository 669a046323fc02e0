package pushwrite

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"github.com/stag-rdma/stag/nfsdemo/internal/lease"
	"github.com/stag-rdma/stag/nfsdemo/server"
	"github.com/stag-rdma/stag/rdmap/region/pmem"
)

// storeName is the file of the leases in Config.Dir. No log has a file with this name.
const storeName = "leases"

// ErrStore: the file of the leases is damaged or gone. Without it nobody knows to which files the records
// of the logs belong.
var ErrStore = errors.New("pushwrite: the file of the leases is damaged or gone (restore the latest state of it from a copy; " +
	"if there is none, move it and all logs away: the records that wait in them are lost)")

// stored is a lease in the store.
type stored struct {
	ID    lease.ID
	Log   string
	Grant server.Grant
	Void  bool // its records were discarded and must not be applied
}

// store keeps leases in a file (store_format.go): entries are appended, and synced before the
// lease is used.
//
// After the last synced entry a crash may leave anything: a truncated entry, zeros where the file system
// has allocated but not written, later octets without earlier ones. No client was told about a lease
// there. To distinguish this from damage, each write begins with its one grant and is synced: octets that
// cannot be read, but have a grant after them, were synced once.
type store struct {
	path string

	mu   sync.Mutex // held while the file is written and synced
	f    storeFile
	size int
	over []lease.ID // ended leases, not written yet
	err  error      // final: fsync is not tried again
}

// storeFile is an *os.File that is appended to.
type storeFile interface {
	io.WriteCloser
	Sync() error
}

// openStore reads the leases and rewrites their file, without what a crash has left.
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

// readStore reads the leases and does not change their file.
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

// grant makes a lease durable, and records the leases that are over.
func (s *store) grant(e *stored) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.write(s.appendOver(appendEntry(nil, entryGrant, e))); err != nil {
		return err
	}
	return s.keep(s.f.Sync())
}

// end notes that leases are over. The next grant, or settle, writes that. If a crash comes before,
// nothing is lost, unless the log of the lease cannot be read afterwards.
func (s *store) end(ids []lease.ID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.over = append(s.over, ids...)
}

// settle makes durable which leases are over, if no grant has done so.
func (s *store) settle() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.settleLocked()
}

// settleLocked is settle for a caller that holds s.mu.
func (s *store) settleLocked() error {
	if len(s.over) == 0 {
		return nil
	}
	if err := s.write(s.appendOver(nil)); err != nil {
		return err
	}
	return s.keep(s.f.Sync())
}

// appendOver appends the entries of leases that are over. The caller holds s.mu.
func (s *store) appendOver(b []byte) []byte {
	for _, id := range s.over {
		b = appendEntry(b, entryOver, &stored{ID: id})
	}
	s.over = nil
	return b
}

// write appends b to the file and syncs it. The caller holds s.mu.
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

// large reports whether the file is so large that it should be rewritten for n leases.
func (s *store) large(n int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	size := s.size + len(s.over)*overLen
	return s.err == nil && size > 1<<20 && size > 8*n*maxEntry
}

// rewrite replaces the file by one with only the leases that snapshot returns. While it runs, no lease
// becomes durable, so that none is forgotten.
func (s *store) rewrite(snapshot func() ([]stored, lease.ID)) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return s.err
	}
	b := appendStore(snapshot())
	temp := filepath.Join(filepath.Dir(s.path), "."+storeName) // always the same, so that crashes leave at most one
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
		_ = s.f.Close() // this file has no name anymore
	}
	s.f, s.size, s.over = f, len(b), nil
	return s.keep(pmem.SyncDir(filepath.Dir(s.path)))
}

func (s *store) close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	_ = s.settleLocked() // if it fails, nothing is lost, as with end
	if s.err == nil {
		s.err = fs.ErrClosed
	}
	return s.f.Close()
}
