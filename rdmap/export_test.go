package rdmap

import "github.com/stag-rdma/stag/rdmap/internal/buf"

// Mem returns the memory of p.
func (p *Pool) Mem() *buf.Pool { return p.mem }
