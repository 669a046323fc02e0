package bench

import (
	"io/fs"
	"sync"

	"github.com/stag-rdma/stag/internal/pmemsim"
	"github.com/stag-rdma/stag/rdmap/region"
	"github.com/stag-rdma/stag/transport/push"
)

// simStore keeps logs in a model of persistent memory, without a disk.
type simStore struct {
	mu   sync.Mutex
	logs map[string]region.Memory
	from map[string]push.Origin
}

func newSimStore() *simStore {
	return &simStore{logs: make(map[string]region.Memory), from: make(map[string]push.Origin)}
}

// Create implements push.Store.
func (s *simStore) Create(name string, size int, from push.Origin, format func(region.Memory) error) error {
	m := pmemsim.New(size, nil)
	if err := format(m); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.logs[name], s.from[name] = m, from
	return nil
}

// Open implements push.Store.
func (s *simStore) Open(name string) (region.Memory, push.Origin, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	m, ok := s.logs[name]
	if !ok {
		return nil, push.Origin{}, fs.ErrNotExist
	}
	return m, s.from[name], nil
}

// Tidy implements push.Store.
func (s *simStore) Tidy() (int, error) { return 0, nil }

// Names implements push.Store.
func (s *simStore) Names() ([]string, error) { return nil, nil }
