package rdmap

import (
	"github.com/stag-rdma/stag/rdmap/internal/drive"
	"github.com/stag-rdma/stag/rdmap/internal/engine"
	"github.com/stag-rdma/stag/rdmap/verbs"
)

// keepalive sends the keepalives of an initiator.
type keepalive struct {
	c     *Conn
	timer engine.Keepalive // owned by the ticker
}

// needsKeepalive reports whether the peer may need keepalives: another stag does not.
func (c *Conn) needsKeepalive() bool {
	return c.initiator && !c.state.StagPeer && !c.cfg.Startup.NoKeepalive
}

// Tick implements drive.Ticked.
func (k *keepalive) Tick() bool {
	c := k.c
	due, more := k.timer.Tick(c.reads.Load() > 0)
	if !due {
		return more
	}
	c.mu.Lock()
	alive := c.snd.State() == engine.StateOpen
	if alive {
		c.snd.Post(&verbs.WR{Op: verbs.OpWrite})
	}
	c.mu.Unlock()
	c.flushIfReady(drive.Never) // the ticker must not wait
	return alive && more
}
