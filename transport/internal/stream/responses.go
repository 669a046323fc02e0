package stream

import (
	"sync"

	"github.com/stag-rdma/stag/transport/rpc"
)

// maxIdleResponses limits the pooled responses.
const maxIdleResponses = 256

// responsePool is a bounded stock of responses.
type responsePool struct {
	mu   sync.Mutex
	idle []*rpc.Response
}

var responses responsePool

// get returns an empty response.
func (p *responsePool) get() *rpc.Response {
	p.mu.Lock()
	var r *rpc.Response
	if k := len(p.idle); k > 0 {
		r = p.idle[k-1]
		p.idle = p.idle[:k-1]
	}
	p.mu.Unlock()
	if r == nil {
		r = new(rpc.Response)
	}
	r.Reset()
	return r
}

// put releases what r has borrowed, and puts r into the pool.
func (p *responsePool) put(r *rpc.Response) {
	r.Lent.Release()
	p.mu.Lock()
	if len(p.idle) < maxIdleResponses {
		p.idle = append(p.idle, r)
	}
	p.mu.Unlock()
}
