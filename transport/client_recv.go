package transport

import (
	"encoding/binary"
	"errors"

	"github.com/stag-rdma/stag/rdmap"
	"github.com/stag-rdma/stag/rdmap/verbs"
	"github.com/stag-rdma/stag/rpcrdma"
	"github.com/stag-rdma/stag/transport/internal/mem"
	"github.com/stag-rdma/stag/transport/internal/register"
	"go.uber.org/zap"
)

var _ rdmap.Handler = (*clientConn)(nil)

// clientConn has the upcalls of a Client, so that Client does not export them.
type clientConn struct{ c *Client }

// errForeignSTag: RFC 8797 Section 4.1 lets a reply invalidate a steering tag of its own call only.
// Another call has lost its memory, so nothing is certain anymore.
var errForeignSTag = errors.New("transport: a reply invalidated memory of another call")

// HandleRecv takes a reply, or a backward call. It runs in whichever goroutine reads.
func (h *clientConn) HandleRecv(conn *rdmap.Conn, m *verbs.Message) {
	c := h.c
	if m.Op == verbs.OpImmediate || m.Op == verbs.OpImmediateSE {
		c.immediate(conn, m)
		return
	}
	if c.back != nil && !rpcrdma.ForRequester(m.Data, true) {
		(*respUpcalls)(c.back).HandleRecv(conn, m)
		return
	}
	conn.PostRecv(1)
	c.received(conn, m)
}

// received gives a reply to its call.
func (c *Client) received(conn *rdmap.Conn, m *verbs.Message) {
	c.mu.Lock()
	p, why := c.receive(m)
	var foreign, left bool
	var pull *replyPull
	if m.Invalidated != 0 {
		c.ctr.Invalidated.Add(1)
		foreign = p == nil || !p.rc.Offers(register.Handle(m.Invalidated))
	}
	if p != nil && c.cfg.Trace != nil {
		traceReplied(c.cfg.Trace, p.rc.XID, len(m.Data), m.Invalidated != 0)
	}
	if p != nil && p.readsReply() {
		pull = c.beginPull(p)
	}
	if p != nil && pull == nil {
		left = p.answered()
	}
	c.wakeQueue()
	c.mu.Unlock()
	c.ctr.Inline.Add(uint64(len(m.Data)))
	switch {
	case foreign:
		conn.Abort(errForeignSTag)
	case p == nil:
		c.ctr.Dropped.Add(1)
		c.cfg.Logger.Debug("transport: reply dropped", zap.Error(why))
	case left:
		c.reap(p)
	}
	if pull != nil {
		pull.start()
	}
	if c.cfg.RFC5666 != nil {
		c.sendDones() // the reply may have brought the credit
	}
}

// receive finds the call that m answers. It copies the reply first, because the machine returns
// views and m is only lent. The caller holds c.mu.
func (c *Client) receive(m *verbs.Message) (*outcall, error) {
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
		p := rc.Owner.(*outcall)
		b := mem.Shared.Get(len(send))
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
func (c *Client) lookup(send []byte) *rpcrdma.Call {
	if len(send) < rpcrdma.FixedSize {
		return nil
	}
	return c.req.Lookup(binary.BigEndian.Uint32(send))
}

// reap releases the memory of a call that its caller has abandoned. If the engine still uses the
// memory, an upcall must not wait for it.
func (c *Client) reap(p *outcall) {
	if p.takeBack(register.NoWait, c.ctr) == nil {
		c.giveBack(p)
		return
	}
	go c.giveBack(p)
}

// HandleClose ends all calls: it tells those that wait why, and reaps the others.
func (h *clientConn) HandleClose(_ *rdmap.Conn, err error) {
	c := h.c
	var reap []*outcall
	c.mu.Lock()
	if err == nil {
		err = verbs.ErrClosed
	}
	c.err = err
	if c.lent == nil {
		c.ctr.Conns.Store(0)
	}
	if c.req != nil {
		c.req.Drain(func(rc *rpcrdma.Call) {
			p := rc.Owner.(*outcall)
			p.active = false
			if p.left {
				reap = append(reap, p)
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
	if c.back != nil {
		(*respUpcalls)(c.back).HandleClose(c.conn, err)
	}
	for _, p := range reap {
		c.reap(p)
	}
}
