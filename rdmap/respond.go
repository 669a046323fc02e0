package rdmap

import (
	"errors"

	"github.com/stag-rdma/stag/rdmap/ddp"
	"github.com/stag-rdma/stag/rdmap/internal/mutant"
	"github.com/stag-rdma/stag/rdmap/region"
	"github.com/stag-rdma/stag/rdmap/verbs"
)

// executors has the function that carries out each request of queue 1: it turns an item that holds a
// request into one that holds the response. Requests run one at a time in the order of arrival, each
// after everything that was delivered before it, and each response is generated before the next
// request starts. That satisfies every ordering rule of RFC 5040 Section 5.5 and RFC 7306 Section 7.
// Rights are checked here, at execution.
var executors = [...]func(it *item, t *region.Table) error{
	verbs.OpReadRequest:        executeRead,
	verbs.OpAtomicRequest:      executeAtomic,
	verbs.OpFlushRequest:       executeFlush,
	verbs.OpVerifyRequest:      executeVerify,
	verbs.OpAtomicWriteRequest: executeAtomicWrite,
}

// execute carries out the request of it.
func (it *item) execute(t *region.Table) error {
	err := executors[it.req.op](it, t)
	if mutant.KeepGoing && err != nil {
		it.n, err = 0, nil
	}
	return err
}

// executable reports whether requests of this opcode can be carried out.
func executable(op verbs.Opcode) bool {
	return int(op) < len(executors) && executors[op] != nil
}

// executeRead turns a Read Request into its Read Response (RFC 5040 Section 4.4): size octets of the
// source, for the STag and TO of the sink, which are copied without a check. "If the RDMA Read Message
// Size is zero" the source MUST NOT be validated.
func executeRead(it *item, t *region.Table) error {
	var rr readRequest
	rr.parse(it.req.body[:])
	it.op = verbs.OpReadResponse
	it.seg = ddp.Segment{
		Tagged: true, Control: controlOctet(verbs.OpReadResponse),
		STag: ddp.STag(rr.sink), TO: rr.sinkTO,
	}
	if rr.size == 0 {
		return nil
	}
	view, err := t.Lookup(rr.src, rr.srcTO, rr.size, region.RemoteRead)
	if err != nil {
		return it.req.refuse(violationOf(err), err)
	}
	it.view, it.pinned, it.body = view, true, view.Bytes()
	return nil
}

// violationOf maps a refusal of the region table to a remote protection error of RFC 5040.
func violationOf(err error) violation {
	switch {
	case errors.Is(err, region.ErrNotAssociated):
		return vioNotAssociated
	case errors.Is(err, region.ErrAccess):
		return vioAccess
	case errors.Is(err, region.ErrWrap):
		return vioWrap
	case errors.Is(err, region.ErrBounds):
		return vioBounds
	}
	return vioSTag
}

// refuse returns the error for a request that cannot be carried out. Its Terminate quotes the header
// and the segment length, and, for a protection error of a Read Request, the RDMAP header too.
func (r *request) refuse(v violation, cause error) error {
	e := v.error(cause)
	e.Terminate.HasLength, e.Terminate.SegLen = true, r.segLen
	e.Terminate.DDP = append([]byte(nil), r.hdr[:]...)
	if r.op == verbs.OpReadRequest && v.protection() {
		e.Terminate.Read = append([]byte(nil), r.body[:readHeaderLen]...)
	}
	return e
}
