package rdmaptest

import (
	"sync"

	"github.com/stag-rdma/stag/rdmap/region"
)

// Persisting is memory that counts what it persists.
type Persisting struct {
	Mem   []byte
	mu    sync.Mutex
	Calls int
	Err   error
	Stop  chan struct{} // if not nil, Persist waits for it
}

// Persist implements region.Memory.
func (m *Persisting) Persist(int, int) error {
	if m.Stop != nil {
		<-m.Stop
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.Calls++
	return m.Err
}

// Bytes implements region.Memory.
func (m *Persisting) Bytes() []byte { return m.Mem }

// Close implements region.Memory.
func (m *Persisting) Close() error { return nil }

// CommitRights are the rights that all requests together need.
const CommitRights = region.RemoteRead | region.RemoteWrite | region.FlushPersistent | region.FlushVisible | region.Verify
