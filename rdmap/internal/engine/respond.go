package engine

import (
	"bytes"
	"crypto/subtle"
	"encoding/binary"
	"errors"
	"sync"

	"github.com/stag-rdma/stag/rdmap/ddp"
	"github.com/stag-rdma/stag/rdmap/region"
	"github.com/stag-rdma/stag/rdmap/verbs"
)

// executors has the function that carries out each request of queue 1: it turns a message that holds a
// request into one that holds the response. Requests run one at a time in the order of arrival, each
// after everything that was delivered before it, and each response is generated before the next
// request starts. That satisfies every ordering rule of RFC 5040 Section 5.5 and RFC 7306 Section 7.
// Rights are checked here, at execution.
var executors = [...]func(it *message, t *region.Table) error{
	verbs.OpReadRequest:        executeRead,
	verbs.OpAtomicRequest:      executeAtomic,
	verbs.OpFlushRequest:       executeFlush,
	verbs.OpVerifyRequest:      executeVerify,
	verbs.OpAtomicWriteRequest: executeAtomicWrite,
}

// execute carries out the request of it.
func (it *message) execute(t *region.Table) error {
	return executors[it.req.Op](it, t)
}

// executable reports whether requests of this opcode can be carried out.
func executable(op verbs.Opcode) bool {
	return int(op) < len(executors) && executors[op] != nil
}

// executeRead turns a Read Request into its Read Response (RFC 5040 Section 4.4): size octets of the
// source, for the STag and TO of the sink, which are copied without a check. "If the RDMA Read Message
// Size is zero" the source MUST NOT be validated.
func executeRead(it *message, t *region.Table) error {
	var rr readRequest
	rr.parse(it.req.Body[:])
	it.op = verbs.OpReadResponse
	it.seg = ddp.Segment{
		Tagged: true, Control: controlOctet(verbs.OpReadResponse),
		STag: ddp.STag(rr.Sink), TO: rr.SinkTO,
	}
	if rr.Size == 0 {
		return nil // RFC 5040 Section 4.4: neither STag nor TO is looked at
	}
	view, err := t.Lookup(rr.Src, rr.SrcTO, rr.Size, region.RemoteRead)
	if err != nil {
		return it.req.refuse(violationOf(err), err)
	}
	it.view, it.pinned, it.body = view, true, view.Bytes() // until it has been written: Invalidate waits for that
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
	e := v.asError(cause)
	e.Terminate.HasLength, e.Terminate.SegLen = true, r.segLen
	e.Terminate.DDP = append([]byte(nil), r.hdr[:]...)
	if r.Op == verbs.OpReadRequest && v.protection() {
		e.Terminate.Read = append([]byte(nil), r.Body[:readHeaderLen]...)
	}
	return e
}

// Requests that can block, because they flush to persistence or hash, are carried out by whoever calls begin, run and
// finish of a task, one at a time, once everything before them has been carried out and written.

// inlineVerify is the largest number of octets of plain memory that is hashed without an executor.
const inlineVerify = 4096

// blocks reports whether a request may take long.
func (r *request) blocks() bool {
	switch r.Op {
	case verbs.OpFlushRequest:
		return verbs.FlushFlags(r.Body[targetLen+3])&verbs.FlushPersistent != 0
	case verbs.OpVerifyRequest:
		var g target
		g.parse(r.Body[:])
		return r.slow || g.N > inlineVerify
	default:
		return false
	}
}

// stores reports whether the request changes memory.
func (r *request) stores() bool {
	return r.Op == verbs.OpAtomicRequest || r.Op == verbs.OpAtomicWriteRequest
}

// NeedExecutor reports whether the head of the requests waits for an executor.
func (s *Sender) NeedExecutor() bool {
	return s.responses.Len() > 0 && s.handed == 0 && !s.tasked && !s.State().Ended() && !s.responses.At(0).answerable()
}

// answerable reports whether a response may be handed to the flusher.
func (it *message) answerable() bool {
	return it.state == ready || it.state == queued && !it.req.blocks()
}

// Task is the request of a peer that is being carried out, and that can block. It is kept, so that a request costs no
// allocation.
type Task struct{ it message }

// Begin reports whether there is a request to be carried out, and copies it to t. Until next there is no other.
func (s *Sender) Begin(t *Task) bool {
	if !s.NeedExecutor() {
		return false
	}
	s.tasked = true
	s.responses.At(0).state = executing
	t.it = *s.responses.At(0) // a copy, since the ring may move while the lock is not held
	return true
}

// Run carries out the request. It needs no lock.
func (t *Task) Run(mem *region.Table) error { return t.it.execute(mem) }

// Finish makes the response ready to be sent, unless nothing is answered any more.
func (s *Sender) Finish(t *Task) {
	if !s.State().Ended() { // else the queue has been emptied
		t.it.state = ready
		*s.responses.At(0) = t.it
	}
}

// Next is begin for whoever has finished a request.
func (s *Sender) Next(t *Task) bool {
	t.it = message{}
	s.tasked = false
	return s.Begin(t)
}

// atomicRequest is the RDMAP header of an Atomic Request (RFC 7306 Section 5.2.1),
// 52 octets, big-endian:
//
//	off 0 operation, 4 request identifier, 8 STag, 12 TO (8 octets),
//	20 add or swap data, 28 add or swap mask, 36 compare data, 44 compare mask
type atomicRequest struct {
	verbs.Atomic
	rawOp uint32
	id    uint32
	stag  region.STag
	to    uint64
}

const (
	atomicRequestLen  = 52
	atomicResponseLen = 12
)

func (a *atomicRequest) append(b []byte) []byte {
	b = binary.BigEndian.AppendUint32(b, uint32(a.Op))
	b = binary.BigEndian.AppendUint32(b, a.id)
	b = binary.BigEndian.AppendUint32(b, uint32(a.stag))
	b = binary.BigEndian.AppendUint64(b, a.to)
	b = binary.BigEndian.AppendUint64(b, a.Operand)
	mask, cmp, cmpMask := a.Mask, a.Compare, a.CompareMask
	// "These fields SHOULD be set" so when they are not used.
	switch a.Op {
	case verbs.AtomicFetchAdd:
		cmp, cmpMask = 0, ^uint64(0)
	case verbs.AtomicSwap:
		mask, cmp, cmpMask = ^uint64(0), 0, ^uint64(0)
	case verbs.AtomicCmpSwap:
	}
	b = binary.BigEndian.AppendUint64(b, mask)
	b = binary.BigEndian.AppendUint64(b, cmp)
	return binary.BigEndian.AppendUint64(b, cmpMask)
}

// parse reads the 52 octets of b.
func (a *atomicRequest) parse(b []byte) {
	_ = b[atomicRequestLen-1]
	// The upper 28 bits are reserved. Choice: they are ignored.
	a.rawOp = binary.BigEndian.Uint32(b) & 0x0f
	a.Op = verbs.AtomicOp(a.rawOp)
	a.id = binary.BigEndian.Uint32(b[4:])
	a.stag = region.STag(binary.BigEndian.Uint32(b[8:]))
	a.to = binary.BigEndian.Uint64(b[12:])
	a.Operand = binary.BigEndian.Uint64(b[20:])
	a.Mask = binary.BigEndian.Uint64(b[28:])
	a.Compare = binary.BigEndian.Uint64(b[36:])
	a.CompareMask = binary.BigEndian.Uint64(b[44:])
}

// executeAtomic executes an Atomic Request, and turns it into its response (RFC 7306 Section 5.2).
func executeAtomic(it *message, t *region.Table) error {
	var a atomicRequest
	a.parse(it.req.Body[:])
	switch {
	case a.Op == verbs.AtomicFetchAdd, a.Op == verbs.AtomicCmpSwap, a.Op == verbs.AtomicSwap && it.req.swap:
	default:
		return it.req.refuse(vioAtomicOp, nil)
	}
	view, err := t.Lookup(a.stag, a.to, 8, region.Atomic)
	if err != nil {
		return it.req.refuse(violationOf(err), err)
	}
	defer view.Release()
	old, err := a.apply(&view) // once: a request is never sent again
	if err != nil {
		return it.req.refuse(memoryFailed(&view, err), err)
	}
	b := it.respond(verbs.OpAtomicResponse, atomicResponseLen)
	binary.BigEndian.PutUint32(b, a.id)
	binary.BigEndian.PutUint64(b[4:], old)
	return nil
}

func (a *atomicRequest) apply(v *region.View) (old uint64, err error) {
	switch a.Op {
	case verbs.AtomicFetchAdd:
		return v.FetchAdd(a.Operand, a.Mask)
	case verbs.AtomicSwap:
		return v.Swap(a.Operand)
	case verbs.AtomicCmpSwap:
	}
	return v.CmpSwap(a.Compare, a.CompareMask, a.Operand, a.Mask)
}

// respond turns it into a response on queue 3 and returns its payload of n octets, which
// overwrites the request.
func (it *message) respond(op verbs.Opcode, n int) []byte {
	it.op, it.octets = op, uint32(n)
	it.seg = ddp.Segment{Control: controlOctet(op), QN: ddp.QNResponse}
	return it.req.Body[:n]
}

// memoryFailed returns the violation for err, an error of an access to v. Memory that has failed
// loses all its registrations.
func memoryFailed(v *region.View, err error) violation {
	switch {
	case errors.Is(err, region.ErrAlign): // the memory is as good as before
		return vioMisaligned
	case errors.Is(err, region.ErrNotVerifiable): // the memory is as good as before
		return vioMemory
	}
	region.RevokeMemory(v.Memory())
	return vioMemory
}

// deliverAnswer completes the oldest request with its response on queue 3. DDP has checked the
// MSN; the kind, and for atomics the identifier, must be those of the request (RFC 7306 Section 5).
func (r *Receiver) deliverAnswer(op verbs.Opcode, b, u []byte) error {
	rd, ok := r.up.head()
	if !ok || rd.op+1 != op {
		return r.refuse(vioAnswer, u, wantGot(rd.op+1, op))
	}
	ans := rd.answer
	if rd.cancelled {
		ans = nil
	}
	switch op {
	case verbs.OpAtomicResponse:
		if id := binary.BigEndian.Uint32(b); id != rd.id {
			return r.refuse(vioAnswerID, u, wantGot(rd.id, id))
		}
		if ans != nil {
			ans.Old = binary.BigEndian.Uint64(b[4:])
		}
	case verbs.OpVerifyResponse:
		if w := rd.want; w != nil {
			if !bytes.Equal(b, w.octets()) {
				return r.refuse(vioWrongHash, u, wantGot(w.octets(), b))
			}
			hashes.Put(w)
		}
		if ans != nil {
			ans.N = copy(ans.Sum[:], b)
		}
	default:
	}
	r.Due = r.up.answered(r.Due)
	r.ev.Kind = EvReadDone
	return nil
}

// minCompare is the least number of octets that a compare-only Verify may cover. The content of
// fewer could be found by trying hashes, which would amount to a Read.
const minCompare = 64

// wantedHash is the hash that a Verify Request carries, kept for as long as the response is due: a response with
// another one would tell a caller who does not compare, such as a commit log, that his octets are there.
type wantedHash struct {
	n   int
	sum [maxHash]byte
}

var hashes = sync.Pool{New: func() any { return new(wantedHash) }}

func (h *wantedHash) set(head, body []byte) *wantedHash {
	h.n = copy(h.sum[:], head)
	h.n += copy(h.sum[h.n:], body)
	return h
}

func (h *wantedHash) octets() []byte { return h.sum[:h.n] }

// target is the head of every commit request: off 0 STag, 4 length, 8 TO (8 octets).
type target struct {
	STag region.STag
	N    uint32
	To   uint64
}

const targetLen = 16

// append appends the 16 octets of g to b.
func (g *target) append(b []byte) []byte {
	b = binary.BigEndian.AppendUint32(b, uint32(g.STag))
	b = binary.BigEndian.AppendUint32(b, g.N)
	return binary.BigEndian.AppendUint64(b, g.To)
}

func (g *target) parse(b []byte) {
	g.STag = region.STag(binary.BigEndian.Uint32(b))
	g.N = binary.BigEndian.Uint32(b[4:])
	g.To = binary.BigEndian.Uint64(b[8:])
}

// executeFlush executes a Flush Request. Choice: also if it covers no octets, STag, rights and bounds are
// checked, since the requester takes the answer for a promise about that memory; if it has no flags, the
// right to flush for visibility is needed; unknown flags are ignored.
func executeFlush(it *message, t *region.Table) error {
	var g target
	g.parse(it.req.Body[:])
	flags := verbs.FlushFlags(it.req.Body[targetLen+3])
	it.respond(verbs.OpFlushResponse, 0)
	need := region.FlushVisible
	if flags&verbs.FlushPersistent != 0 {
		need = region.FlushPersistent
		if flags&verbs.FlushVisible != 0 {
			need |= region.FlushVisible
		}
	}
	view, err := t.Lookup(g.STag, g.To, g.N, need)
	if err != nil {
		return it.req.refuse(violationOf(err), err)
	}
	defer view.Release()
	if flags&verbs.FlushPersistent == 0 || g.N == 0 {
		return nil // what came before is placed, and so visible
	}
	if err := view.Memory().Persist(view.Offset(), int(g.N)); err != nil {
		if !errors.Is(err, region.ErrNotPersistent) {
			region.RevokeMemory(view.Memory()) // nobody may go on as if octets could be made durable there
		}
		return it.req.refuse(vioFlush, err)
	}
	return nil
}

// executeVerify compares or returns the hash of the target. A returned hash, and a comparison over
// few octets, tell as much as a Read, so they need that right too. A failed comparison ends the
// stream.
func executeVerify(it *message, t *region.Table) error {
	var g target
	g.parse(it.req.Body[:])
	view, err := t.Lookup(g.STag, g.To, g.N, region.Verify)
	if err != nil {
		return it.req.refuse(violationOf(err), err)
	}
	defer view.Release()
	want := it.req.Body[targetLen:it.req.n]
	blind := view.Access()&region.RemoteRead == 0 // may not know the content
	if blind && (len(want) == 0 || g.N < minCompare || !view.MayGuess(t)) {
		return it.req.refuse(vioAccess, region.ErrAccess)
	}
	if len(want) != 0 && len(want) != region.SumLen {
		return it.req.refuse(vioHashLength, wantGot(region.SumLen, len(want)))
	}
	var room [region.SumLen]byte
	sum, err := view.AppendSum(room[:0])
	if err != nil {
		return it.req.refuse(memoryFailed(&view, err), err)
	}
	if len(want) != 0 && subtle.ConstantTimeCompare(sum, want) == 0 {
		if blind {
			view.Guessed(t)
		}
		return it.req.refuse(vioMismatch, nil)
	}
	copy(it.respond(verbs.OpVerifyResponse, len(sum)), sum)
	return nil
}

// executeAtomicWrite stores 8 octets in one step. Choice: they are octets, not a number in host
// byte order, and need only the right to write.
func executeAtomicWrite(it *message, t *region.Table) error {
	var g target
	g.parse(it.req.Body[:])
	if g.N != 8 { // before the STag: the request itself is wrong
		return it.req.refuse(vioWordLength, wantGot(8, g.N))
	}
	view, err := t.Lookup(g.STag, g.To, g.N, region.RemoteWrite)
	if err != nil {
		return it.req.refuse(violationOf(err), err)
	}
	defer view.Release()
	if err := view.StoreWord([8]byte(it.req.Body[targetLen:])); err != nil {
		return it.req.refuse(memoryFailed(&view, err), err)
	}
	it.respond(verbs.OpAtomicWriteResponse, 0)
	return nil
}
