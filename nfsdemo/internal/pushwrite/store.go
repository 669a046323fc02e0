package pushwrite

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"github.com/stag-rdma/stag/nfsdemo/internal/lease"
	"github.com/stag-rdma/stag/rdmap/region"
	"github.com/stag-rdma/stag/rdmap/region/pmem"
	"github.com/stag-rdma/stag/transport/commitlog"
)

// storeName is the file of the leases in Config.Dir. No push log has a file with this name.
const storeName = "leases"

// ErrStore: the file of the leases is damaged or gone. Without it nobody knows to which files the records
// of the logs belong.
var ErrStore = errors.New("pushwrite: the file of the leases is damaged or gone (restore the latest state of it from a copy; " +
	"if there is none, move it and all logs away: the records that wait in them are lost)")

// store keeps leases in a commit log: entries are appended, durably, before the lease is used. When the log is full, and
// at each start, it is written anew under another name.
type store struct {
	path     string
	least    int                         // octets of the smallest ring
	snapshot func() ([]stored, lease.ID) // the leases that there are

	mu   sync.Mutex // held while entries are appended
	mem  *pmem.Memory
	log  *entryLog
	over []lease.ID // ended leases, not written yet
	err  error      // final
}

// openStore reads the leases and writes their file anew, without what a crash has left.
func openStore(dir string) (*store, *leases, error) {
	s := &store{path: filepath.Join(dir, storeName), least: 256 << 10}
	live, err := readStore(s.path)
	if errors.Is(err, fs.ErrNotExist) {
		live, err = new(leases), nil
	}
	if err != nil {
		return nil, nil, err
	}
	s.snapshot = live.snapshot
	return s, live, s.renew()
}

// readStore reads the leases and does not change their file.
func readStore(path string) (*leases, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // nothing was written
	fi, err := f.Stat()
	if err != nil {
		return nil, err
	}
	live, err := readLeases(f, fi.Size())
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return live, nil
}

// grant makes a lease durable, and records the leases that are over.
func (s *store) grant(e *stored) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.write(encodeEntry(entryGrant, e))
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
	if len(s.over) == 0 {
		return nil
	}
	return s.write()
}

// write appends entries, and those of leases that are over, durably. The caller holds s.mu.
func (s *store) write(entries ...[]byte) error {
	if s.err != nil {
		return s.err
	}
	all := entries
	for _, id := range s.over {
		all = append(all, encodeEntry(entryOver, &stored{ID: id}))
	}
	if !s.log.fits(all) {
		if err := s.renew(); err != nil {
			return err
		}
		all = entries
	}
	s.over = nil
	s.err = s.log.append(all)
	return s.err
}

// renew replaces the log by one with only the leases that there are. While it runs, no lease becomes durable, so
// that none is forgotten. After an error the log is as before, unless the error is final. The caller holds s.mu, or is alone.
func (s *store) renew() error {
	live, last := s.snapshot()
	entries := [][]byte{encodeEntry(entryLast, &stored{ID: last})}
	for i := range live {
		kind := uint32(entryGrant)
		if live[i].Void {
			kind = entryVoid
		}
		entries = append(entries, encodeEntry(kind, &live[i]))
	}
	size, err := commitlog.MemorySize(uint64(s.least + 2*roomFor(entries)))
	if err != nil {
		return err
	}
	temp := s.path + ".new" // always the same, so that crashes leave at most one
	if err := os.Remove(temp); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := pmem.Create(temp, size, nil); err != nil {
		return err
	}
	mem, err := pmem.Open(pmem.File, temp, nil)
	if err != nil {
		return err
	}
	l, err := newEntryLog(mem)
	if err == nil {
		if err = l.append(entries); err == nil {
			err = os.Rename(temp, s.path)
		}
		if err != nil {
			err = errors.Join(err, l.close())
		}
	}
	if err != nil {
		return errors.Join(err, mem.Close(), os.Remove(temp))
	}
	if s.log != nil {
		_ = errors.Join(s.log.close(), s.mem.Close()) // this file has no name anymore
	}
	s.mem, s.log = mem, l
	s.err = pmem.SyncDir(filepath.Dir(s.path))
	return s.err
}

func (s *store) close() error {
	_ = s.settle() // if it fails, nothing is lost, as with end
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err = cmp.Or(s.err, fs.ErrClosed)
	return errors.Join(s.log.close(), s.mem.Close())
}

// entryLog is a commit log to which this process appends entries until it is full.
type entryLog struct {
	mem  region.Watched
	log  *commitlog.Log
	p    *commitlog.Producer
	free int // octets of the ring
	done chan struct{}
}

// newEntryLog makes a log that takes all of mem.
func newEntryLog(mem region.Watched) (*entryLog, error) {
	if err := commitlog.Create(mem, nil); err != nil {
		return nil, err
	}
	l, err := commitlog.Open(mem)
	if err != nil {
		return nil, err
	}
	e := &entryLog{mem: mem, log: l, p: commitlog.NewProducer(nil), free: int(l.Info().Capacity), done: make(chan struct{})}
	if err := l.Local(context.Background(), e.p); err != nil {
		return nil, errors.Join(err, l.Close(context.Background()))
	}
	go func() {
		select {
		case <-mem.Failed():
			e.p.Close() // otherwise appends would wait for another session
		case <-e.done:
		}
	}()
	return e, nil
}

// roomFor returns how many octets of a ring entries take (docs/commitlog-format.md).
func roomFor(entries [][]byte) (n int) {
	for _, b := range entries {
		n += 2 * ((28 + len(b) + 63) &^ 63)
	}
	return n
}

func (e *entryLog) fits(entries [][]byte) bool { return roomFor(entries) <= e.free }

// append appends each entry twice, in a row, and returns when all of them are durable. An error is final.
func (e *entryLog) append(entries [][]byte) error {
	e.free -= roomFor(entries)
	var pending []*commitlog.Pending
	var err error
	for _, b := range entries {
		for range 2 {
			p, berr := e.p.Begin(b)
			if berr != nil {
				err = cmp.Or(err, berr)
				continue
			}
			pending = append(pending, p)
		}
	}
	for _, p := range pending {
		_, werr := p.Wait(context.Background())
		err = cmp.Or(err, werr)
	}
	if err != nil {
		err = cmp.Or(e.mem.Err(), err)
	}
	return err
}

func (e *entryLog) close() error {
	close(e.done)
	e.p.Close()
	return e.log.Close(context.Background())
}
