package rdmap

import "errors"

// upcall runs HandleRecv and reports whether the role is still there afterwards.
// upcalls is odd meanwhile: whoever makes it even takes the role.
func (c *Conn) upcall(st *staging, ev *event) bool {
	buf := ev.buf
	m := &st.msg // field by field: a copy of all at once would wait for what was just stored
	m.Op, m.Data, m.Invalidated, m.Solicited = ev.msg.Op, ev.msg.Data, ev.msg.Invalidated, ev.msg.Solicited
	ev.clear()
	s := c.upcalls.Load() + 1
	m.Order = s
	c.upcalls.Store(s)
	c.watchUpcall()
	c.cfg.Handler.HandleRecv(c, m)
	kept := c.upcalls.CompareAndSwap(s, s+1)
	if buf != nil {
		c.cfg.Pool.put(buf)
	}
	if !kept {
		st.leave()
		c.takeovers.Add(-1)
	}
	return kept
}

// HandOff passes the reading role of the running upcall on to a new goroutine, so
// that the rest of the upcall may block. It may be called in HandleRecv only, by the
// goroutine that was called; m and m.Data stay lent until HandleRecv returns. It
// reports whether the upcall is now free to block: false means that
// Config.MaxTakeovers upcalls do so already.
//
// Messages behind this one are then handled concurrently with it. What the upcall
// has posted is flushed.
func (c *Conn) HandOff() bool {
	s := c.upcalls.Load()
	if s&1 == 0 {
		return true // the watchdog was quicker
	}
	return c.takeOver(s)
}

// takeOver takes the role from the upcall that s stands for and gives it to a new
// goroutine. The upcall keeps its staging, where its message lies.
func (c *Conn) takeOver(s uint64) bool {
	if c.takeovers.Add(1) > int64(c.cfg.MaxTakeovers) || !c.upcalls.CompareAndSwap(s, s+1) {
		c.takeovers.Add(-1)
		return false
	}
	c.taken.Add(1)
	if c.st != nil {
		c.st = c.st.split()
	}
	go c.succeed()
	return true
}

// succeed carries on where the upcall that lost the role was.
func (c *Conn) succeed() {
	c.endBurst()
	if c.st == nil {
		if !c.executeHere() {
			return
		}
	} else if err := c.handle(); errors.Is(err, errLostRole) {
		return
	}
	c.role.mu.Lock()
	serve := c.role.holder == holderServer
	c.role.mu.Unlock()
	if serve {
		c.serve()
		return
	}
	c.rearm()
}
