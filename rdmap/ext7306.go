package rdmap

import (
	"context"
	"sync"

	"github.com/stag-rdma/stag/rdmap/region"
	"github.com/stag-rdma/stag/rdmap/verbs"
)

// FetchAdd adds add to the 64-bit word at to of the peer's region stag and returns what it held
// before (RFC 7306 Section 5.1.1). Each bit set in mask is the highest bit of a field, whose
// carry is dropped; mask 0 means one field of 64 bits. The address of the word must be a multiple
// of 8, and the word is a number in the peer's byte order. If ctx ends first, the peer may or may
// not execute the operation.
func (c *Conn) FetchAdd(ctx context.Context, stag region.STag, to, add, mask uint64) (old uint64, err error) {
	return c.atomic(ctx, stag, to, verbs.Atomic{Op: verbs.AtomicFetchAdd, Operand: add, Mask: mask})
}

// CmpSwap replaces the bits swapMask of the word by those of swap if its bits compareMask equal
// those of compare, and returns what the word held before (RFC 7306 Section 5.1.2). With masks of
// all ones it is the usual compare and swap. Address, byte order and ctx are as for FetchAdd.
func (c *Conn) CmpSwap(
	ctx context.Context, stag region.STag, to, compare, compareMask, swap, swapMask uint64,
) (old uint64, err error) {
	return c.atomic(ctx, stag, to, verbs.Atomic{
		Op: verbs.AtomicCmpSwap, Operand: swap, Mask: swapMask, Compare: compare, CompareMask: compareMask,
	})
}

// Swap replaces the word by value and returns what it held before. It needs ExtSwap. Address, byte
// order and ctx are as for FetchAdd.
func (c *Conn) Swap(ctx context.Context, stag region.STag, to, value uint64) (old uint64, err error) {
	return c.atomic(ctx, stag, to, verbs.Atomic{Op: verbs.AtomicSwap, Operand: value})
}

// SendImmediate sends Immediate Data (RFC 7306 Section 6): 8 octets, which are delivered in order
// with Sends and consume a receive of the peer. solicited asks for an event there.
func (c *Conn) SendImmediate(ctx context.Context, data [8]byte, solicited bool) error {
	op := verbs.OpImmediate
	if solicited {
		op = verbs.OpImmediateSE
	}
	return c.doWord(ctx, &verbs.WR{Op: op}, data)
}

// asking holds what a blocking request must not keep on its stack.
type asking struct {
	atomic verbs.Atomic
	answer verbs.Answer
	word   [8]byte
}

var askings = sync.Pool{New: func() any { return new(asking) }}

func (c *Conn) atomic(ctx context.Context, stag region.STag, to uint64, a verbs.Atomic) (uint64, error) {
	q, _ := askings.Get().(*asking)
	q.atomic = a
	err := c.do(ctx, &verbs.WR{Op: verbs.OpAtomicRequest, STag: stag, TO: to, Atomic: &q.atomic, Answer: &q.answer})
	if err != nil {
		return 0, err // the answer may still come: q is not used again
	}
	old := q.answer.Old
	askings.Put(q)
	return old, nil
}

// doWord is do for a payload of 8 octets.
func (c *Conn) doWord(ctx context.Context, wr *verbs.WR, data [8]byte) error {
	q, _ := askings.Get().(*asking)
	q.word = data
	wr.Body = q.word[:]
	err := c.do(ctx, wr)
	askings.Put(q) // Post has copied the word
	return err
}
