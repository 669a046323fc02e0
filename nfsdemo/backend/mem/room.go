package mem

import (
	"github.com/stag-rdma/stag/nfsdemo/backend"
	"github.com/stag-rdma/stag/nfsdemo/nfs3"
)

var _ backend.Roomer = (*file)(nil)

// Room compares the pages that the write would allocate with those that are left.
func (n *node) Room(off uint64, size int) error {
	n.mu.RLock()
	defer n.mu.RUnlock()
	missing := uint64(0)
	for i := off / pageSize; i <= (off+uint64(size)-1)/pageSize; i++ {
		if n.pages[i] == nil {
			missing++
		}
	}
	f := n.fs
	f.space.Lock()
	defer f.space.Unlock()
	if (f.pages+missing)*pageSize > f.cfg.Capacity {
		return nfs3.ErrNoSpc
	}
	return nil
}
