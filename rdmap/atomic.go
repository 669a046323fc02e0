package rdmap

import (
	"bytes"
	"encoding/binary"
	"errors"

	"github.com/stag-rdma/stag/rdmap/ddp"
	"github.com/stag-rdma/stag/rdmap/internal/mutant"
	"github.com/stag-rdma/stag/rdmap/region"
	"github.com/stag-rdma/stag/rdmap/verbs"
)

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
func executeAtomic(it *item, t *region.Table) error {
	var a atomicRequest
	a.parse(it.req.body[:])
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
	old, err := a.apply(&view)
	if err != nil {
		return it.req.refuse(memoryFailed(&view, err), err)
	}
	view.Stored()
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
func (it *item) respond(op verbs.Opcode, n int) []byte {
	it.op, it.n = op, uint32(n)
	it.seg = ddp.Segment{Control: controlOctet(op), QN: ddp.QNResponse}
	return it.req.body[:n]
}

// memoryFailed returns the violation for err, an error of an access to v. Memory that has failed
// loses all its registrations.
func memoryFailed(v *region.View, err error) violation {
	switch {
	case errors.Is(err, region.ErrAlign):
		return vioMisaligned
	case errors.Is(err, region.ErrNotVerifiable): // the memory is as good as before
		return vioMemory
	}
	region.RevokeMemory(v.Memory())
	return vioMemory
}

// deliverAnswer completes the oldest request with its response on queue 3. DDP has checked the
// MSN; the kind, and for atomics the identifier, must be those of the request (RFC 7306 Section 5).
func (r *receiver) deliverAnswer(op verbs.Opcode, b, u []byte) error {
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
			if !bytes.Equal(b, w.octets()) && !mutant.AnyHash {
				return r.refuse(vioWrongHash, u, wantGot(w.octets(), b))
			}
			hashes.Put(w)
		}
		if ans != nil {
			ans.N = copy(ans.Sum[:], b)
		}
	default:
	}
	r.due = r.up.answered(r.due)
	r.ev.kind = evReadDone
	return nil
}
