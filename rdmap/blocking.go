package rdmap

import (
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
	err = w.err
	c.spare.put(w)
	return err
}

// cancel ends the wait for wr early, because of err. A work request that was copied, has not begun, or
// is a Read needs no more waiting. A borrowed payload that is being written does: until it has been
// written, or Config.WriteTimeout has passed.
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

// waitRoom waits until the send queue may have room again.
func (c *Conn) waitRoom(ctx context.Context) error {
	var w Waiter
	w.Reset()
	c.mu.Lock()
	if c.snd.Copied == 0 {
		c.mu.Unlock()
		return nil
	}
	c.full = append(c.full, &w)
	c.mu.Unlock()
	return c.Wait(ctx, &w)
}

// wakeFull appends the Waiters that wait for room to due, with mu held.
func (c *Conn) wakeFull(due []engine.Completion) []engine.Completion {
	for i, w := range c.full {
		due = append(due, engine.Completion{Done: w})
		c.full[i] = nil
	}
	c.full = c.full[:0]
	return due
}
