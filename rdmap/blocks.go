package rdmap

import (
	"github.com/stag-rdma/stag/rdmap/region"
	"github.com/stag-rdma/stag/rdmap/verbs"
)

// Requests that can block, because they flush to persistence or hash, are carried out by whoever calls begin, run and
// finish of a task, one at a time, once everything before them has been carried out and written.

// inlineVerify is the largest number of octets of plain memory that is hashed without an executor.
const inlineVerify = 4096

// blocks reports whether a request may take long.
func (r *request) blocks() bool {
	switch r.op {
	case verbs.OpFlushRequest:
		return verbs.FlushFlags(r.body[targetLen+3])&verbs.FlushPersistent != 0
	case verbs.OpVerifyRequest:
		var g target
		g.parse(r.body[:])
		return r.slow || g.n > inlineVerify
	default:
		return false
	}
}

// stores reports whether the request changes memory.
func (r *request) stores() bool {
	return r.op == verbs.OpAtomicRequest || r.op == verbs.OpAtomicWriteRequest
}

// needExecutor reports whether the head of the requests waits for an executor.
func (s *sender) needExecutor() bool {
	return s.rq.Len() > 0 && s.handed == 0 && !s.executing && !s.aborted && !s.rq.At(0).answerable()
}

// answerable reports whether a response may be handed to the flusher.
func (it *item) answerable() bool { return it.executed || !it.req.blocks() }

// task is the request of a peer that is being carried out, and that can block. It is kept, so that a request costs no
// allocation.
type task struct{ it item }

// begin reports whether there is a request to be carried out, and copies it to t. Until next there is no other.
func (s *sender) begin(t *task) bool {
	if !s.needExecutor() {
		return false
	}
	s.executing = true
	t.it = *s.rq.At(0)
	return true
}

// run carries out the request. It needs no lock.
func (t *task) run(mem *region.Table) error { return t.it.execute(mem) }

// finish makes the response ready to be sent, unless nothing is answered any more.
func (s *sender) finish(t *task) {
	if !s.aborted {
		t.it.executed = true
		*s.rq.At(0) = t.it
	}
}

// next is begin for whoever has finished a request.
func (s *sender) next(t *task) bool {
	t.it = item{}
	s.executing = false
	return s.begin(t)
}
