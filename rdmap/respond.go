package rdmap

import (
	"errors"

	"github.com/stag-rdma/stag/rdmap/ddp"
	"github.com/stag-rdma/stag/rdmap/internal/mutant"
	"github.com/stag-rdma/stag/rdmap/region"
)

// executors says how each request of queue 1 is carried out: it turns an item that
// holds a request into the response. Requests run one at a time in the order of
// arrival, each after everything delivered before it, and each response is generated
// before the next request starts; that satisfies every ordering rule of RFC 5040
// Section 5.5 and RFC 7306 Section 7. Rights are checked here, at execution.
var executors = [...]func(it *item, t *region.Table) error{
	OpReadRequest:        executeRead,
	OpAtomicRequest:      executeAtomic,
	OpFlushRequest:       executeFlush,
	OpVerifyRequest:      executeVerify,
	OpAtomicWriteRequest: executeAtomicWrite,
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
func executable(op Opcode) bool {
	return int(op) < len(executors) && executors[op] != nil
}

// executeRead makes a Read Response of a Read Request, RFC 5040 Section 4.4: size
// octets of the source, to the sink's STag and TO, which are copied unread. "If the
// RDMA Read Message Size is zero" the source MUST NOT be validated.
func executeRead(it *item, t *region.Table) error {
	var rr readRequest
	rr.parse(it.req.body[:])
	it.op = OpReadResponse
	it.seg = ddp.Segment{
		Tagged: true, Control: controlOctet(OpReadResponse),
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

// violationOf maps a refusal of the region table to RFC 5040's remote protection
// errors.
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

// refuse makes the error, and the Terminate, for a request that cannot be carried
// out: header and segment length, and for a Read Request its own header too.
func (r *request) refuse(v violation, cause error) error {
	e := v.error(cause)
	e.term.HasLength, e.term.SegLen = true, r.segLen
	e.term.DDP = append([]byte(nil), r.hdr[:]...)
	if r.op == OpReadRequest && v.protection() {
		e.term.Read = append([]byte(nil), r.body[:readHeaderLen]...)
	}
	return e
}
