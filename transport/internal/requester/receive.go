package requester

import (
	"encoding/binary"
	"errors"

	"github.com/stag-rdma/stag/rdmap"
	"github.com/stag-rdma/stag/rdmap/verbs"
	"github.com/stag-rdma/stag/rpcrdma"
	"github.com/stag-rdma/stag/transport/internal/memory"
	"go.uber.org/zap"
)

// ErrForeignSTag: RFC 8797 Section 4.1 lets a reply invalidate a steering tag of its own call only.
// Another call has lost its memory, so nothing is certain anymore.
var ErrForeignSTag = errors.New("transport: a reply invalidated memory of another call")

// Receive takes a Send that is for this end as a requester. It runs in whichever goroutine reads, and is one of these:
//
//   - The reply to a call: it is copied, and the caller wakes; if the caller has left, the memory of the call is released.
//   - A reply that says where the server exposes it (RFC 5666): it is pulled first.
//   - What answers no call, or breaks a rule: it is dropped. If it has invalidated memory of its own call, that call fails.
//
// One that has invalidated memory of another call ends the connection.
func (c *Requester) Receive(conn *rdmap.Conn, m *verbs.Message) {
	var p *outstanding
	var why error
	var foreign, left bool
	var pull *replyPull
	defer func() { // also if the trace panics, without the lock
		if left {
			c.ctr.Replies.Add(1)
			c.reap(p)
		}
	}()
	func() {
		c.mu.Lock()
		defer c.mu.Unlock() // trace and binding may panic
		p, why = c.receive(m)
		defer func() { // also if the trace panics: the reply is here
			c.granted = c.granted || p != nil
			if p != nil && pull == nil {
				left = p.answered()
			}
			c.wakeQueue()
		}()
		if m.Invalidated != 0 {
			c.ctr.Invalidated.Add(1)
			if rc := c.lookup(m.Data); p == nil && rc != nil && rc.Offers(memory.Handle(m.Invalidated)) && c.req.Refuse(rc, why) {
				// The Send was dropped, but it has taken its own call's memory: no good reply can follow.
				p = rc.Owner.(*outstanding)
			}
			foreign = p == nil || !p.rc.Offers(memory.Handle(m.Invalidated))
		}
		if t := c.cfg.Trace; p != nil && t != nil {
			if t.Replied != nil {
				t.Replied(p.rc.XID, len(m.Data))
			}
			if m.Invalidated != 0 && t.Invalidated != nil {
				t.Invalidated(p.rc.XID)
			}
		}
		if p != nil && p.readsReply() {
			pull = c.beginPull(p)
		}
	}()
	c.ctr.Inline.Add(uint64(len(m.Data)))
	if foreign {
		conn.Abort(ErrForeignSTag)
	}
	if p == nil {
		c.ctr.Dropped.Add(1)
		c.cfg.Logger.Debug("transport: reply dropped", zap.Error(why))
	}
	if pull != nil {
		pull.start()
	}
	if c.cfg.RFC5666 {
		c.sendDones() // the reply may have brought the credit
	}
}

// receive finds the call that m answers. It copies the reply first, because the machine returns
// views and m is only lent. The caller holds c.mu.
func (c *Requester) receive(m *verbs.Message) (*outstanding, error) {
	receive := (*rpcrdma.Requester).Receive
	if m.Order < c.order { // another goroutine was quicker with a later message
		receive = (*rpcrdma.Requester).ReceiveLate
	}
	c.order = max(c.order, m.Order)
	send := m.Data
	if c.req == nil {
		return nil, rpcrdma.ErrUnknownXID // no call was made yet
	}
	if rc := c.lookup(send); rc != nil {
		p := rc.Owner.(*outstanding)
		b := memory.Shared.Get(len(send))
		n := copy(b.Data, send)
		if got, err := receive(c.req, b.Data[:n]); got == nil {
			b.Release() // it is not a reply after all
			return nil, err
		}
		p.in = b
		return p, nil
	}
	_, err := receive(c.req, send)
	return nil, err
}

// lookup returns the outstanding call whose XID is at the start of send.
func (c *Requester) lookup(send []byte) *rpcrdma.Call {
	if c.req == nil || len(send) < rpcrdma.FixedSize {
		return nil
	}
	return c.req.Lookup(binary.BigEndian.Uint32(send))
}

// reap releases the memory of a call that its caller has abandoned. If the engine still uses the
// memory, an upcall must not wait for it.
func (c *Requester) reap(p *outstanding) {
	if p.takeBack(memory.NoWait, c.ctr) == nil {
		c.giveBack(p)
		return
	}
	go c.giveBack(p)
}

// Ended fails all calls, because the connection has ended: it tells those that wait why, and reaps the others. A body
// that the engine still reads is followed by bodyBack, which then reaps: whoever comes last does.
func (c *Requester) Ended(err error) {
	var reap []*outstanding
	c.mu.Lock()
	if err == nil {
		err = verbs.ErrClosed
	}
	c.err = err
	if c.receives == nil {
		c.ctr.Conns.Store(0)
	}
	if c.req != nil {
		c.req.Drain(func(rc *rpcrdma.Call) {
			p := rc.Owner.(*outstanding)
			p.active = false
			if p.left {
				if p.writing == nil {
					reap = append(reap, p)
				}
			} else if !p.w.Done() {
				p.w.Complete(err)
			}
		})
	}
	for p := c.queue.Pop(); p != nil; p = c.queue.Pop() {
		if !p.w.Done() {
			p.w.Complete(err)
		}
	}
	close(c.over)
	c.mu.Unlock()
	for _, p := range reap {
		c.reap(p)
	}
}
