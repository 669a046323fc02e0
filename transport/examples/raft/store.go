// Package raftlog is a raft.LogStore and raft.StableStore (github.com/hashicorp/raft) on a commit log: raft decides who
// leads and who is a member, and each of its appends is one flush of a ring in persistent memory.
//
// A record holds the entries of one call of raft, or says that entries at one end are gone. The room of entries at the front, which raft deletes
// after a snapshot, is used again.
package raftlog

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/hashicorp/raft"
	"github.com/stag-rdma/stag/rdmap/region/pmem"
	"github.com/stag-rdma/stag/transport/commitlog"
)

const (
	kindEntries = 1 // entries of raft, from an index on
	kindFront   = 2 // entries below an index are gone
	kindBack    = 3 // entries above an index are gone
	kindSet     = 4 // a key and a value of the stable store
)

// Store keeps the log and the term of a member of a cluster in a file.
type Store struct {
	mem  *pmem.Memory
	log  *commitlog.Log
	prod *commitlog.Producer

	mu    sync.Mutex
	first uint64  // index of the oldest entry
	at    []place // where the entries are, from first on
	keys  map[string][]byte
	sets  uint64 // number of the record from which on all keys were set
}

// place is where an entry is: at an octet of a record.
type place struct {
	seq uint64
	off int
}

var (
	_ raft.LogStore          = (*Store)(nil)
	_ raft.MonotonicLogStore = (*Store)(nil)
	_ raft.StableStore       = (*Store)(nil)
)

// Open opens the store in the file path, and makes one of capacity octets if there is none.
func Open(path string, capacity uint64) (*Store, error) {
	size, err := commitlog.MemorySize(capacity)
	if err != nil {
		return nil, err
	}
	if err := pmem.Create(path, size, nil); err != nil && !errors.Is(err, os.ErrExist) {
		return nil, err
	}
	mem, err := pmem.Open(pmem.File, path, nil)
	if err != nil {
		return nil, err
	}
	s := &Store{mem: mem, first: 1, keys: make(map[string][]byte)}
	if commitlog.Unused(bytes.NewReader(mem.Bytes()), int64(len(mem.Bytes()))) { // new, or a crash came while it was made
		if err := commitlog.Create(mem, nil); err != nil {
			return nil, errors.Join(err, mem.Close())
		}
	}
	if s.log, err = commitlog.Open(mem); err != nil {
		return nil, errors.Join(fmt.Errorf("raftlog: %s: %w", path, err), mem.Close())
	}
	s.prod = commitlog.NewProducer(nil)
	if err := errors.Join(s.log.Local(context.Background(), s.prod), s.take()); err != nil {
		return nil, errors.Join(fmt.Errorf("raftlog: %s: %w", path, err), s.Close())
	}
	return s, nil
}

// Close closes the file. What was stored is durable.
func (s *Store) Close() error {
	s.prod.Close()
	return errors.Join(s.log.Close(context.Background()), s.mem.Close())
}

// take applies the records that were appended. The caller holds s.mu, or is alone.
func (s *Store) take() error {
	for {
		r, err := s.log.TryNext()
		if err != nil || r == nil {
			return err
		}
		if err := s.apply(r); err != nil {
			return err
		}
	}
}

func (s *Store) apply(r *commitlog.Record) error {
	if len(r.Payload) < 9 {
		return fmt.Errorf("raftlog: record %d is not of this store", r.Seq)
	}
	n := binary.BigEndian.Uint64(r.Payload[1:])
	switch r.Payload[0] {
	case kindEntries:
		if len(s.at) == 0 {
			s.first = n
		}
		if n < s.first || n > s.first+uint64(len(s.at)) {
			return fmt.Errorf("raftlog: entry %d after %d entries from %d on", n, len(s.at), s.first)
		}
		s.at = s.at[:n-s.first]
		for off := 9; off < len(r.Payload); {
			s.at = append(s.at, place{r.Seq, off})
			off += size(r.Payload[off:])
		}
	case kindFront:
		drop := min(max(n, s.first)-s.first, uint64(len(s.at)))
		s.at, s.first = s.at[drop:], max(n, s.first)
	case kindBack:
		s.at = s.at[:min(max(n+1, s.first)-s.first, uint64(len(s.at)))]
	case kindSet:
		if len(s.keys) == 0 {
			s.sets = r.Seq
		}
		s.keys[string(r.Payload[9:9+n])] = r.Payload[9+n:]
	}
	return nil
}

// put appends records, with one flush, and applies them. The caller holds s.mu.
func (s *Store) put(records ...[]byte) error {
	pending := make([]*commitlog.Pending, 0, len(records))
	var err error
	for _, r := range records {
		var p *commitlog.Pending
		if p, err = s.prod.TryBegin(r); err != nil {
			break // there is no room: take a snapshot, or make the log larger
		}
		pending = append(pending, p)
	}
	for _, p := range pending {
		if _, werr := p.Wait(context.Background()); err == nil {
			err = werr
		}
	}
	return errors.Join(err, s.take())
}

func record(kind byte, n uint64, rest ...[]byte) []byte {
	b := binary.BigEndian.AppendUint64([]byte{kind}, n)
	for _, r := range rest {
		b = append(b, r...)
	}
	return b
}

// FirstIndex implements raft.LogStore.
func (s *Store) FirstIndex() (uint64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.at) == 0 {
		return 0, nil
	}
	return s.first, nil
}

// LastIndex implements raft.LogStore.
func (s *Store) LastIndex() (uint64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.at) == 0 {
		return 0, nil
	}
	return s.first + uint64(len(s.at)) - 1, nil
}

// IsMonotonic implements raft.MonotonicLogStore: after a restored snapshot, raft deletes what is there first.
func (s *Store) IsMonotonic() bool { return true }

// GetLog implements raft.LogStore.
func (s *Store) GetLog(index uint64, l *raft.Log) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if index < s.first || index-s.first >= uint64(len(s.at)) {
		return raft.ErrLogNotFound
	}
	at := s.at[index-s.first]
	recs, err := s.log.Read(context.Background(), at.seq, 0)
	if err != nil {
		return err
	}
	b := recs[0].Payload[at.off:]
	u64 := func(at int) uint64 { return binary.BigEndian.Uint64(b[at:]) }
	*l = raft.Log{Index: index, Term: u64(0), AppendedAt: time.Unix(0, int64(u64(8))), Type: raft.LogType(b[16])}
	n, end := headLen+int(binary.BigEndian.Uint32(b[17:])), size(b)
	l.Data, l.Extensions = b[headLen:n:n], b[n:end:end]
	return nil
}

// An entry is: term (8 octets), time (8), type (1), length of the data (4), of the extensions (4), data, extensions.
const headLen = 25

func appendEntry(b []byte, l *raft.Log) []byte {
	b = binary.BigEndian.AppendUint64(b, l.Term)
	b = binary.BigEndian.AppendUint64(b, uint64(l.AppendedAt.UnixNano()))
	b = append(b, byte(l.Type))
	b = binary.BigEndian.AppendUint32(b, uint32(len(l.Data)))
	b = binary.BigEndian.AppendUint32(b, uint32(len(l.Extensions)))
	return append(append(b, l.Data...), l.Extensions...)
}

// size returns how long the entry in b is.
func size(b []byte) int {
	return headLen + int(binary.BigEndian.Uint32(b[17:])) + int(binary.BigEndian.Uint32(b[21:]))
}

// StoreLog implements raft.LogStore.
func (s *Store) StoreLog(l *raft.Log) error { return s.StoreLogs([]*raft.Log{l}) }

// StoreLogs implements raft.LogStore.
func (s *Store) StoreLogs(ls []*raft.Log) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	limit := commitlog.PayloadLimit(s.log.Info().Capacity)
	var records [][]byte
	var b []byte
	for _, l := range ls {
		if len(b) > 0 && len(b)+headLen+len(l.Data)+len(l.Extensions) > limit {
			records, b = append(records, b), nil
		}
		if len(b) == 0 {
			b = record(kindEntries, l.Index)
		}
		b = appendEntry(b, l)
	}
	return s.put(append(records, b)...)
}

// DeleteRange implements raft.LogStore: raft deletes at one end of the log.
func (s *Store) DeleteRange(low, high uint64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if low > s.first {
		return s.put(record(kindBack, low-1))
	}
	// The keys are written again: their old records may lie in the room that becomes free.
	records := [][]byte{record(kindFront, high+1)}
	for k, v := range s.keys {
		records = append(records, record(kindSet, uint64(len(k)), []byte(k), v))
	}
	clear(s.keys)
	if err := s.put(records...); err != nil {
		return err
	}
	keep := s.sets
	if len(s.at) > 0 && (keep == 0 || s.at[0].seq < keep) {
		keep = s.at[0].seq
	}
	if keep == 0 {
		return nil
	}
	return s.log.Release(keep - 1)
}

// Set implements raft.StableStore.
func (s *Store) Set(key, value []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.put(record(kindSet, uint64(len(key)), key, value))
}

// errNoKey has the text that raft looks for.
var errNoKey = errors.New("not found")

// Get implements raft.StableStore.
func (s *Store) Get(key []byte) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	v, ok := s.keys[string(key)]
	if !ok {
		return nil, errNoKey
	}
	return v, nil
}

// SetUint64 implements raft.StableStore.
func (s *Store) SetUint64(key []byte, v uint64) error {
	return s.Set(key, binary.BigEndian.AppendUint64(nil, v))
}

// GetUint64 implements raft.StableStore.
func (s *Store) GetUint64(key []byte) (uint64, error) {
	v, err := s.Get(key)
	if err != nil {
		return 0, err
	}
	return binary.BigEndian.Uint64(v), nil
}
