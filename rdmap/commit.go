package rdmap

import (
	"bytes"
	"context"

	"github.com/stag-rdma/stag/rdmap/region"
	"github.com/stag-rdma/stag/rdmap/verbs"
)

// Flush makes the peer flush n octets at to of its region stag, and returns when that is done
// (draft-talpey-rdma-commit Section 3.1). Earlier writes to these octets are then persistent or
// visible, as flags demand.
func (c *Conn) Flush(ctx context.Context, stag region.STag, to uint64, n uint32, flags verbs.FlushFlags) error {
	return c.do(ctx, &verbs.WR{Op: verbs.OpFlushRequest, STag: stag, TO: to, Len: n, Flags: flags})
}

// Verify returns the hash of n octets at to of the peer's region stag (draft-talpey-rdma-commit
// Section 3.2). If want is not empty, the peer compares the hash with it: if they differ, it ends
// the connection with a Terminate and executes no later request; if it answers with another hash all the
// same, Verify returns a *ProtocolError, and the connection ends too. So with want, nil means that the
// peer says that want is the hash. want is borrowed until Verify returns. The result is want itself, or,
// without it, belongs to the caller.
func (c *Conn) Verify(ctx context.Context, stag region.STag, to uint64, n uint32, want []byte) ([]byte, error) {
	q, _ := askings.Get().(*asking)
	if err := c.do(ctx, &verbs.WR{Op: verbs.OpVerifyRequest, STag: stag, TO: to, Len: n, Body: want, Answer: &q.answer}); err != nil {
		return nil, err // the answer may still come: q is not used again
	}
	sum := want
	if got := q.answer.Sum[:q.answer.N]; !bytes.Equal(got, want) {
		sum = bytes.Clone(got)
	}
	askings.Put(q)
	return sum, nil
}

// AtomicWrite stores 8 octets at to of the peer's region stag, in one step, after all earlier
// requests have succeeded (draft-talpey-rdma-commit Section 3.3). The address of the octets in the
// peer's memory must be a multiple of 8.
func (c *Conn) AtomicWrite(ctx context.Context, stag region.STag, to uint64, data [8]byte) error {
	return c.doWord(ctx, &verbs.WR{Op: verbs.OpAtomicWriteRequest, STag: stag, TO: to}, data)
}
