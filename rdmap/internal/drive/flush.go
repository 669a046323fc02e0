package drive

import (
	"runtime"

	"github.com/stag-rdma/stag/rdmap/internal/engine"
	"github.com/stag-rdma/stag/rdmap/verbs"
)

// Post queues work requests, all or none, and writes them unless somebody else will.
func (d *Driver) Post(wrs []verbs.WR) error {
	need := engine.ExtBase
	for i := range wrs {
		if err := engine.Misuse(&wrs[i]); err != nil {
			return err
		}
		need |= engine.ExtensionOf(&wrs[i])
	}
	d.called()
	d.mu.Lock()
	if err := d.postable(wrs, need); err != nil {
		d.mu.Unlock()
		return err
	}
	d.snd.PostAll(wrs)
	mine := d.write()
	d.mu.Unlock()
	if !mine {
		return nil
	}
	if d.role.State() == Server || d.waiting.Load() > 0 {
		// Others wait for answers, or this is an answer and others are being prepared: more is
		// likely to be posted in a moment. Let them append first, and write once for all.
		runtime.Gosched()
	}
	d.flush(IfBlind)
	return nil
}

// postable returns why wrs cannot be queued, or nil, with mu held.
func (d *Driver) postable(wrs []verbs.WR, need verbs.Extensions) error {
	switch st := d.snd.State(); {
	case st.Ended():
		return d.snd.Err()
	case st == engine.StateClosing:
		return verbs.ErrClosed
	case !st.Up():
		return verbs.ErrNoHandshake
	case need&^d.snd.Ext != 0:
		return verbs.ErrNoExtension
	case !d.snd.HasRoom(wrs):
		return verbs.ErrSendQueueFull
	}
	if d.snd.ORD == 0 {
		for i := range wrs {
			if engine.Asks(wrs[i].Op) {
				return verbs.ErrNoORD
			}
		}
	}
	return nil
}

// flushTurn is how many batches a reader or a poster writes before a goroutine takes over: they have
// other things to do, and while others post there may be no end to it.
const flushTurn = 2

// FlushPosted writes what upcalls have posted, without waiting for the end of the input that is being handled.
func (d *Driver) FlushPosted() {
	d.mu.Lock()
	mine := d.writer.Idle() && d.snd.Ready(&d.wk)
	if mine {
		d.writer.Begin()
	}
	d.mu.Unlock()
	if mine {
		d.flush(Never)
	}
}

// write makes the caller the writer if there is something to write and nobody else will, with mu held.
func (d *Driver) write() bool {
	if !d.writer.Rests() || !d.snd.Ready(&d.wk) {
		return false
	}
	d.writer.Begin()
	return true
}

// flush writes until nothing is left. The caller is the writer. If flush would have to wait and may
// not, or if its turn is over, a goroutine takes over.
//
// A poster has the patience IfBlind. The holder of the reading role never waits: two peers that both wait to write, and
// do not read, would wait for ever.
func (d *Driver) flush(mode Patience) {
	d.mu.Lock()
	for turn := 1; d.take(); turn++ {
		d.mu.Unlock()
		ferr := d.wk.Build(d.snd.MULPDU, d.snd.CRC, d.cfg.Receiver.Table)
		d.wk.Batch.Begin(d.wk.InMessage())
		again, err := d.push(mode)
		if again {
			d.mu.Lock()
			d.writer.Block()
			d.mu.Unlock()
			go d.flusher(ferr)
			return
		}
		d.settle(ferr, err)
		if turn == flushTurn && mode != Always && d.snd.Ready(&d.wk) {
			d.writer.Block()
			d.mu.Unlock()
			go d.flush(Always)
			return
		}
	}
	d.writer.End()
	local := d.snd.Local
	d.mu.Unlock()
	if local != nil {
		d.fail(local)
	}
}

// take takes what may go into the next batch, with mu held, and reports whether there is anything.
func (d *Driver) take() bool {
	if d.ended() {
		d.due = d.snd.Prune(&d.wk, d.due)
		d.mu.Unlock()
		d.fireDue()
		d.mu.Lock()
	}
	return d.snd.Take(&d.wk)
}

// push writes the batch; again reports that somebody who may wait has to write the rest.
func (d *Driver) push(mode Patience) (again bool, err error) {
	done, err := d.link.Write(&d.wk.Batch, mode, d.cfg.Write)
	return !done && err == nil, err
}

// flusher is the goroutine that waits for room in the socket. ferr is why the batch that is being written ends early.
func (d *Driver) flusher(ferr error) {
	_, werr := d.link.Write(&d.wk.Batch, Always, d.cfg.Write)
	d.settle(ferr, werr)
	d.mu.Unlock()
	d.flush(Always)
}

// settle ends a batch. ferr is the error of building it, werr that of writing it, if any. It returns
// with mu held.
func (d *Driver) settle(ferr, werr error) {
	if werr != nil {
		d.fail(&verbs.ConnError{Op: "write", Err: werr})
	}
	if ferr != nil {
		d.fail(ferr)
	}
	d.mu.Lock()
	d.due = d.snd.Wrote(&d.wk, werr != nil, d.due)
	d.startExecutor()
	if werr != nil {
		d.snd.Shut()
	}
	d.out.Add(&d.wk.Out)
	d.flushes++
	if d.flushes == 1 && d.keepsAlive {
		d.tick.Add(&d.keepalive)
	}
	d.due = d.wakeFull(d.due)
	if len(d.due) > 0 {
		d.mu.Unlock()
		d.fireDue()
		d.mu.Lock()
	}
}

func (d *Driver) fireDue() {
	engine.Fire(d.due)
	d.due = d.due[:0]
}

// flushIfReady flushes what is queued, unless somebody else flushes or will. mode is Never or
// IfBlind.
func (d *Driver) flushIfReady(mode Patience) {
	d.mu.Lock()
	mine := d.write()
	d.mu.Unlock()
	if mine {
		d.flush(mode)
	}
}
