package drive

import (
	"github.com/stag-rdma/stag/rdmap/internal/engine"
	"github.com/stag-rdma/stag/rdmap/verbs"
)

// keepalive sends the keepalives of an initiator.
type keepalive struct {
	d     *Driver
	timer engine.Keepalive // owned by the ticker
}

// Tick implements Ticked.
func (k *keepalive) Tick() bool {
	d := k.d
	due, more := k.timer.Tick(d.reads.Load() > 0)
	if !due {
		return more
	}
	d.mu.Lock()
	alive := d.snd.State() == engine.StateOpen
	if alive {
		d.snd.Post(&verbs.WR{Op: verbs.OpWrite})
	}
	d.mu.Unlock()
	d.flushIfReady(Never) // the ticker must not wait
	return alive && more
}
