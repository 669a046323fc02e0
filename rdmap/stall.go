package rdmap

import (
	"encoding/binary"
	"errors"
	"sync/atomic"
	"time"

	"github.com/stag-rdma/stag/rdmap/ddp"
	"github.com/stag-rdma/stag/rdmap/internal/buf"
	"github.com/stag-rdma/stag/rdmap/internal/drive"
	"github.com/stag-rdma/stag/rdmap/internal/mutant"
	"github.com/stag-rdma/stag/rdmap/verbs"
)

// putOff keeps the ULPDUs of queues 0 and 1 that arrive while queue 0 waits for memory, so that
// messages that free memory (Read Responses, responses on queue 3) are still handled. Requests wait
// too, since a Read Response is not generated before an earlier Send has completed (RFC 5040 Section
// 5.5). Each ULPDU is preceded by its length.
type putOff struct {
	b    []byte
	stop bool // the Pool keeps no more
}

// maxPutOff is how many octets a connection keeps before its whole stream waits. All connections of a
// Pool together keep at most that much or the limit of the Pool, whichever is larger, and the first
// ULPDU of each.
const maxPutOff = 128 << 10

func (o *putOff) len() int { return len(o.b) }

// full reports whether one more ULPDU might not fit.
func (o *putOff) full() bool { return o.stop || len(o.b) > maxPutOff-2-0xffff }

// waits reports whether u has to wait for its turn after what is put off.
func (o *putOff) waits(u []byte) bool {
	if len(u) < ddp.UntaggedLen || u[0]&0x80 != 0 {
		return mutant.WritesWait
	}
	if mutant.RequestsPassMessages {
		return binary.BigEndian.Uint32(u[6:]) == ddp.QNSend
	}
	return binary.BigEndian.Uint32(u[6:]) <= ddp.QNRequest
}

// next returns the first ULPDU.
func (o *putOff) next() []byte {
	n := int(binary.BigEndian.Uint16(o.b))
	return o.b[2 : 2+n]
}

// pop drops the first ULPDU, and returns its room to p.
func (o *putOff) pop(p *buf.Pool) {
	n := 2 + len(o.next())
	p.Forget(n)
	o.stop = false
	o.b = o.b[n:]
	if len(o.b) == 0 {
		o.b = nil
	}
}

// putOff keeps u for later.
func (r *receiver) putOff(u []byte) *event {
	r.ev.kind = evBlocked
	if r.off.full() {
		return &r.ev
	}
	first := r.off.len() == 0
	if !r.pool.Keep(2+len(u), maxPutOff, first) {
		r.off.stop = true
		return &r.ev
	}
	r.off.b = binary.BigEndian.AppendUint16(r.off.b, uint16(len(u)))
	r.off.b = append(r.off.b, u...)
	r.ev.kind = evNone
	if first {
		r.ev.kind = evStalled
	}
	return &r.ev
}

// stall is the state of a connection that waits for the Pool.
type stall struct {
	since time.Time     // when the first ULPDU was put off; owned by the holder of the role
	turn  atomic.Uint64 // changes when a wait begins and when it ends
	retry atomic.Bool   // memory came back
	hint  chan struct{} // wakes a holder that does not read; under role.mu
}

// unstall is called when memory has come back to the Pool.
func (c *Conn) unstall() {
	c.stall.retry.Store(true)
	r := &c.role
	r.mu.Lock()
	if r.take(holderWatcher) {
		r.mu.Unlock()
		if !errors.Is(c.handle(), errLostRole) {
			c.rearm()
		}
		return
	}
	r.interrupt()
	r.mu.Unlock()
}

// stalled begins to wait for memory. After half of the StallTimeout it reclaims the memory of Sends
// that began before the wait and have not ended.
func (c *Conn) stalled() {
	c.stalls.Add(1)
	c.stall.since = time.Now()
	mem := c.cfg.Pool.mem
	last := mem.Last()
	turn := c.stall.turn.Add(1)
	time.AfterFunc(c.cfg.StallTimeout/2, func() {
		if c.stall.turn.Load() == turn {
			mem.Reclaim(last)
		}
	})
	time.AfterFunc(c.cfg.StallTimeout, c.unstall)
	mem.Wait(&c.rcv.claim)
}

// overdue ends the connection unless the Send with that number is complete by now.
func (c *Conn) overdue(began uint64) {
	if c.cfg.Pool.mem.Holds(&c.rcv.arriving, began) {
		c.fail(&verbs.LocalError{Err: verbs.ErrUnfinishedSend})
	}
}

// replay handles what was put off. It ends early if there is still no memory.
func (c *Conn) replay() error {
	off := &c.rcv.off
	c.stall.retry.Store(false)
	for again := true; off.len() > 0; again = false {
		kept := *off
		*off = putOff{} // a stall now must not append to what is being replayed
		ev, err := c.rcv.accept(kept.next())
		if err != nil {
			return err
		}
		if off.len() > 0 { // put off again
			c.cfg.Pool.mem.Forget(off.len())
			*off = kept
			if !again { // it is another Send, whose wait begins now
				c.stalled()
				return nil
			}
			c.cfg.Pool.mem.Wait(&c.rcv.claim)
			return c.stallExpired()
		}
		kept.pop(c.cfg.Pool.mem)
		*off = kept
		// The message lies in the octets that were put off, which are not overwritten.
		held, st := c.st, buf.NewStaging(buf.Small)
		err = c.event(st, ev)
		if errors.Is(err, errLostRole) { // whoever took over has left held, not st
			st.Leave()
			if held != nil {
				held.Leave()
			}
			return err
		}
		st.Release()
		if err != nil {
			return err
		}
	}
	c.stall.turn.Add(1)
	return nil
}

// stallExpired returns the error for a connection that has waited too long: "no buffer" (RFC 5041
// Section 7.1).
func (c *Conn) stallExpired() error {
	if time.Since(c.stall.since) < c.cfg.StallTimeout {
		return nil
	}
	u := c.rcv.off.next()
	err := &ddp.Error{Violation: ddp.NoBuffer, HasHeader: true, SegmentLen: len(u)}
	err.Layer, err.EType, err.Code = err.Violation.Code()
	err.Segment.Parse(u)
	return protocolError(err, u)
}

// beforeStalledRead is called before a read while something is put off. It retries, and if no more can
// be put off, it waits for memory instead of reading.
func (c *Conn) beforeStalledRead(wait bool) error {
	if c.stall.retry.Load() || c.rcv.off.full() {
		if err := c.handle(); err != nil {
			return err
		}
	}
	if !c.rcv.off.full() {
		return nil
	}
	if wait {
		c.waitMemory()
	}
	return drive.ErrInterrupted
}

// waitMemory waits until memory comes back to the Pool, or somebody interrupts.
func (c *Conn) waitMemory() {
	c.role.mu.Lock()
	if c.stall.hint == nil {
		c.stall.hint = make(chan struct{}, 1)
	}
	ch := c.stall.hint
	if c.link.Interrupted() || c.stall.retry.Load() {
		hint(ch)
	}
	c.role.mu.Unlock()
	t := time.NewTimer(c.cfg.StallTimeout)
	defer t.Stop()
	select {
	case <-ch:
	case <-t.C:
	}
}
