package rdmap

import (
	"errors"
	"io"

	"github.com/stag-rdma/stag/rdmap/internal/buf"
	"github.com/stag-rdma/stag/rdmap/internal/drive"
	"github.com/stag-rdma/stag/rdmap/internal/engine"
	"github.com/stag-rdma/stag/rdmap/verbs"
)

// errLostRole: the reading role was taken over while an upcall ran. The former holder no longer
// touches the receiving half.
var errLostRole = errors.New("rdmap: reading role taken over")

// readOnce reads once and handles every FPDU that is complete. It is for the holder of the role. n is
// the number of octets read. The error is drive.ErrInterrupted, errLostRole, or that of a connection that has
// failed.
func (c *Conn) readOnce(wait bool) (n int, err error) {
	if err := c.beforeRead(wait); err != nil {
		return 0, err
	}
	return c.afterRead(c.link.Read((*source)(c), wait, c.waiting.Load() <= 1))
}

// beforeRead returns why nothing can be read now, or nil.
func (c *Conn) beforeRead(wait bool) error {
	if c.ended() {
		return c.Err()
	}
	if c.partial.shrink.Load() {
		c.partial.park()
	}
	if c.rcv.Backlog.Len() > 0 {
		return c.beforeWaitingRead(wait)
	}
	return nil
}

func (c *Conn) afterRead(n int, err error) (int, error) {
	if err != nil {
		if errors.Is(err, drive.ErrInterrupted) {
			return 0, err
		}
		return 0, c.readFailed(err)
	}
	if n == 0 {
		return 0, nil
	}
	c.reads.Add(1)
	c.rcv.In.Octets += uint64(n)
	return n, c.handle()
}

// handle parses what is staged, runs the upcalls, and flushes what they have posted.
func (c *Conn) handle() error {
	c.mu.Lock()
	c.writer.Cork()
	c.executes = c.executesHere()
	c.mu.Unlock()
	err := c.parse()
	if errors.Is(err, errLostRole) {
		return err
	}
	if h, ok := c.cfg.Handler.(IdleHandler); ok && err == nil {
		h.HandleIdle(c)
	}
	c.publish()
	c.uncork()
	if err != nil {
		c.fail(err)
	}
	if !c.executeHere() {
		return errLostRole
	}
	return err
}

// uncork flushes what has been posted while input was handled.
func (c *Conn) uncork() {
	c.mu.Lock()
	c.writer.Uncork()
	mine := c.write()
	if !mine {
		c.writer.Rested()
	}
	c.mu.Unlock()
	if mine {
		c.flush(drive.Never)
	}
}

// parse handles every complete FPDU that is staged.
func (c *Conn) parse() error {
	if c.rcv.Backlog.Len() > 0 {
		if err := c.replay(); err != nil {
			return err
		}
	}
	for c.st != nil {
		st, ev, err := c.rcv.Next(c.st)
		c.st = st
		if err != nil {
			return err
		}
		if ev.Kind == engine.EvNone || ev.Kind == engine.EvBlocked {
			break
		}
		if err := c.event(st, ev); err != nil {
			return err
		}
	}
	if c.st != nil && c.st.R == c.st.W {
		c.st.Release()
		c.st = nil
	}
	c.partial.keep(c.st)
	return nil
}

// event acts on the event of one FPDU.
func (c *Conn) event(st *buf.Staging, ev *engine.Event) error {
	switch ev.Kind {
	case engine.EvNone, engine.EvBlocked:
	case engine.EvRequest:
		c.mu.Lock()
		c.startExecutor()
		c.mu.Unlock()
	case engine.EvReadDone:
		return c.readDone(st)
	case engine.EvTerminate:
		return ev.Term
	case engine.EvStalled:
		c.stalled()
	case engine.EvRepeat:
		return c.upcall(st)
	case engine.EvMessage:
		if c.cfg.Handler == nil {
			c.inbox.put(ev)
			ev.Clear()
			return nil
		}
		return c.deliver(st, ev)
	}
	return nil
}

// readFailed ends the connection because a read has failed. The end of the stream is io.EOF between
// two FPDUs, and io.ErrUnexpectedEOF inside one.
func (c *Conn) readFailed(err error) error {
	if errors.Is(err, io.EOF) && c.st != nil {
		if cut := c.rcv.Deframer.EOF(c.st.Pending()); cut != nil {
			err = errors.Join(io.ErrUnexpectedEOF, cut)
		}
	}
	e := &verbs.ConnError{Op: "read", Err: err}
	c.fail(e)
	return e
}

// publish makes the receive counters visible to Stats.
func (c *Conn) publish() {
	c.in.Set(&c.rcv.In)
}

// source is a Conn as its link sees it. It belongs to the holder of the reading role.
type source Conn

// intake is what Room has prepared, for Got.
type intake struct {
	fresh  bool // the staging was borrowed for this read
	placed bool // the octets go to their places
	room   int  // octets of the staging
	much   bool // the last read filled its room, or brought more than a small staging holds
}

// Room implements drive.Source. A link that waits with the memory gets little, unless the peer sends much.
func (s *source) Room(held bool) (flat []byte, places [][]byte) {
	c, in := (*Conn)(s), &s.intake
	in.fresh, in.placed = c.st == nil, false
	switch {
	case c.st != nil && !held:
		if places = c.places(); places != nil {
			in.placed = true
			return nil, places
		}
		if len(c.st.B) < buf.Big {
			// A parked staging is filled before a big one replaces it: there may be no input.
			if c.st.W < len(c.st.B) {
				in.room = len(c.st.B) - c.st.W
				return c.st.B[c.st.W:], nil
			}
			c.st = c.st.Move(buf.Big)
		}
	case c.st != nil:
	case held && !in.much:
		c.st = buf.NewStaging(buf.Small)
	default:
		c.st = buf.NewStaging(buf.Big)
	}
	c.st, flat = c.st.Room(c.rcv.Deframer.Need(c.st.Pending()))
	if in.fresh && !held && c.cfg.Reading.BusyPoll <= 0 && c.snd.Long.Load() > 0 {
		flat = flat[:engine.ShortRead]
	}
	in.room = len(flat)
	return flat, nil
}

// places returns where the next octets belong if they are the payloads of a Read Response, otherwise nil.
func (c *Conn) places() [][]byte {
	if len(c.st.B) < buf.Big || c.st.R == c.st.W || c.cfg.Reading.BusyPoll > 0 {
		return nil
	}
	return c.rcv.Places(c.st)
}

// Got implements drive.Source.
func (s *source) Got(n int) {
	c, in := (*Conn)(s), &s.intake
	switch {
	case n > 0 && in.placed:
		c.rcv.Landed(c.st, n)
	case n > 0:
		c.st.W += n
		in.much = n == in.room || n > buf.Small
	case in.placed:
		c.rcv.Missed()
	case in.fresh:
		c.st.Release()
		c.st = nil
	}
}
