package rdmap

import (
	"github.com/stag-rdma/stag/rdmap/internal/drive"
	"github.com/stag-rdma/stag/rdmap/internal/engine"
	"github.com/stag-rdma/stag/rdmap/verbs"
)

// Post submits work requests: all of them, adjacent and in order, or none. Outside upcalls it
// flushes, or leaves that to a goroutine that is already flushing. While an upcall runs, the flush
// follows when everything that was read has been handled. Post does not wait for the peer to read
// (on a net.Conn that is not TCP, the flush may). Errors: misuse (ErrBadWR, ErrTooLong, ErrNoORD,
// ErrNoExtension, ErrSendQueueFull, ErrNoHandshake), or the connection's first fatal error. After an
// error no Done of wrs is called. wrs is borrowed until Post returns; for the payloads see WR.
func (c *Conn) Post(wrs []verbs.WR) error {
	need := engine.ExtBase
	for i := range wrs {
		if err := engine.Misuse(&wrs[i]); err != nil {
			return err
		}
		need |= engine.ExtensionOf(&wrs[i])
	}
	c.called()
	c.mu.Lock()
	if err := c.postable(wrs, need); err != nil {
		c.mu.Unlock()
		return err
	}
	c.snd.PostAll(wrs)
	mine := c.write()
	c.mu.Unlock()
	if !mine {
		return nil
	}
	if c.reader.State() == drive.Server || c.waiting.Load() > 0 {
		// Others wait for answers, or this is an answer and others are being prepared: more is
		// likely to be posted in a moment. Let them append first, and write once for all.
		yield()
	}
	c.flush(drive.IfBlind)
	return nil
}

// postable returns why wrs cannot be queued, or nil, with mu held.
func (c *Conn) postable(wrs []verbs.WR, need verbs.Extensions) error {
	switch st := c.snd.State(); {
	case st.Ended():
		return c.snd.Err()
	case st == engine.StateClosing:
		return verbs.ErrClosed
	case !st.Up():
		return verbs.ErrNoHandshake
	case need&^c.snd.Ext != 0:
		return verbs.ErrNoExtension
	case !c.snd.HasRoom(wrs):
		return verbs.ErrSendQueueFull
	}
	if c.snd.ORD == 0 {
		for i := range wrs {
			if engine.Asks(wrs[i].Op) {
				return verbs.ErrNoORD
			}
		}
	}
	return nil
}
