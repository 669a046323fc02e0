package rdmap

import (
	"bytes"
	"context"
	"errors"
	"sync"

	"github.com/stag-rdma/stag/rdmap/internal/engine"
	"github.com/stag-rdma/stag/rdmap/region"
	"github.com/stag-rdma/stag/rdmap/verbs"
)

// spareWaiters keeps Waiters that are complete and that nobody uses any more. Each Conn has its own,
// because a channel belongs to the synctest bubble in which it was made.
type spareWaiters struct {
	mu   sync.Mutex
	list []*Waiter
}

// maxSpareWaiters is how many Waiters a connection keeps.
const maxSpareWaiters = 16

func (s *spareWaiters) get() *Waiter {
	s.mu.Lock()
	defer s.mu.Unlock()
	var w *Waiter
	if n := len(s.list); n > 0 {
		w = s.list[n-1]
		s.list = s.list[:n-1]
	} else {
		w = new(Waiter)
	}
	w.Reset()
	return w
}

func (s *spareWaiters) put(w *Waiter) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.list) < maxSpareWaiters {
		s.list = append(s.list, w)
	}
}

// Send sends p as one message, and returns when the message has been handed to the socket, which
// says nothing about the peer. p is borrowed until Send returns. If ctx ends first, the message
// may or may not be sent, and Send returns ctx's error as soon as p is no longer used.
func (c *Conn) Send(ctx context.Context, p []byte) error {
	return c.do(ctx, &verbs.WR{Op: verbs.OpSend, Body: p})
}

// SendInvalidate is a Send that also invalidates stag at the peer.
func (c *Conn) SendInvalidate(ctx context.Context, p []byte, stag region.STag) error {
	return c.do(ctx, &verbs.WR{Op: verbs.OpSendInvalidate, Body: p, STag: stag})
}

// Write writes p to [to, to+len(p)) of the peer's region stag. It returns when p has been handed to
// the socket. p is certainly placed once the peer has answered a later Send or a later Read is
// complete. p is borrowed, and ctx works, as for Send.
func (c *Conn) Write(ctx context.Context, p []byte, stag region.STag, to uint64) error {
	return c.do(ctx, &verbs.WR{Op: verbs.OpWrite, Body: p, STag: stag, TO: to})
}

// Read fills sink with [to, to+len(sink)) of the peer's region stag. sink is lent until Read
// returns. If ctx ends first, its content is undefined.
func (c *Conn) Read(ctx context.Context, sink []byte, stag region.STag, to uint64) error {
	if uint64(len(sink)) > engine.MaxMessage {
		return verbs.ErrTooLong
	}
	reg, err := c.table.Register(sink, region.ReadSink)
	if err != nil {
		if cause := c.Err(); cause != nil {
			return cause
		}
		return err
	}
	err = c.do(ctx, &verbs.WR{Op: verbs.OpReadRequest, STag: stag, TO: to, Sink: reg.STag(), Len: uint32(len(sink))})
	if e := reg.Invalidate(context.Background()); e != nil && err == nil {
		err = e
	}
	return err
}

// do posts wr and waits for it.
func (c *Conn) do(ctx context.Context, wr *verbs.WR) error {
	w := c.spare.get()
	wr.Done = w
	wrs := [1]verbs.WR{*wr}
	for {
		err := c.Post(wrs[:])
		if err == nil {
			break
		}
		if errors.Is(err, verbs.ErrSendQueueFull) {
			err = c.waitRoom(ctx)
		}
		if err != nil {
			c.spare.put(w)
			return err
		}
	}
	err := c.Wait(ctx, w)
	if !w.Done() {
		return c.cancel(w, wr, err)
	}
	err = w.Err()
	c.spare.put(w)
	return err
}

// cancel ends the wait for wr early, because of err. A work request that was copied, has not begun, or
// is a Read needs no more waiting. A borrowed payload that is being written does: until it has been
// written, or Timeouts.Write has passed.
func (c *Conn) cancel(w *Waiter, wr *verbs.WR, err error) error {
	c.mu.Lock()
	gone := c.snd.Cancel(w)
	c.mu.Unlock()
	if gone {
		c.spare.put(w)
		return err
	}
	if !engine.Asks(wr.Op) && engine.Payload(wr) > verbs.CopyLimit {
		_ = c.Wait(context.Background(), w)
	}
	return err
}

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
