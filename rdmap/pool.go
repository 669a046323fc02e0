package rdmap

import "github.com/stag-rdma/stag/rdmap/internal/buf"

// Pool is a bounded amount of memory that connections share for the octets of Sends that cannot
// be lent from the reader's staging buffer: Sends of several segments while they arrive, and
// messages queued for Recv. A posted receive is a reservation, not a buffer; memory is taken when
// octets arrive. If the pool is empty, only queue 0 of the connection that asked stalls, until
// memory comes back. Waiting connections get memory in the order in which they asked. A peer that
// begins a Send and does not finish it keeps the memory only until another connection needs it; see
// Timeouts.Memory.
//
// A Pool is safe for concurrent use.
type Pool struct{ mem *buf.Pool }

// DefaultPool is used by connections whose Config names none: 64 MiB.
var DefaultPool = NewPool(64 << 20)

// NewPool returns a pool of limit octets.
func NewPool(limit int) *Pool { return &Pool{buf.NewPool(limit)} }

// Used returns the number of octets now taken from the pool.
func (p *Pool) Used() int { return p.mem.Load().Octets }
