package drive

import (
	"errors"
	"fmt"
	"io"
	"runtime/debug"
	"sync"
	"time"

	"github.com/stag-rdma/stag/rdmap/internal/buf"
	"github.com/stag-rdma/stag/rdmap/internal/engine"
	"github.com/stag-rdma/stag/rdmap/verbs"
	"go.uber.org/zap"
)

// errLostRole: the reading role was taken over while an upcall ran. The former holder no longer
// touches the receiving half.
var errLostRole = errors.New("rdmap: reading role taken over")

// readOnce reads once and handles every FPDU that is complete. It is for the holder of the role. n is
// the number of octets read. The error is ErrInterrupted, errLostRole, or that of a connection that has
// failed.
func (d *Driver) readOnce(wait bool) (n int, err error) {
	if err := d.beforeRead(wait); err != nil {
		return 0, err
	}
	return d.afterRead(d.link.Read((*source)(d), wait))
}

// beforeRead returns why nothing can be read now, or nil.
func (d *Driver) beforeRead(wait bool) error {
	if d.ended() {
		return d.Err()
	}
	if d.partial.shrink.Load() {
		d.partial.parked()
	}
	if d.rcv.Backlog.Len() > 0 {
		return d.beforeWaitingRead(wait)
	}
	return nil
}

func (d *Driver) afterRead(n int, err error) (int, error) {
	if err != nil {
		if errors.Is(err, ErrInterrupted) {
			return 0, err
		}
		return 0, d.readFailed(err)
	}
	if n == 0 {
		return 0, nil
	}
	d.reads.Add(1)
	d.rcv.In.Octets += uint64(n)
	return n, d.handle()
}

// handle parses what is staged, runs the upcalls, and flushes what they have posted.
func (d *Driver) handle() error {
	d.mu.Lock()
	d.writer.Cork()
	d.executes = d.executesHere()
	d.mu.Unlock()
	err := d.parse()
	if errors.Is(err, errLostRole) {
		return err
	}
	if err == nil {
		d.up.Idle()
	}
	d.publish()
	d.uncork()
	if err != nil {
		d.fail(err)
	}
	if !d.executeHere() {
		return errLostRole
	}
	return err
}

// uncork flushes what has been posted while input was handled.
func (d *Driver) uncork() {
	d.mu.Lock()
	d.writer.Uncork()
	mine := d.write()
	if !mine {
		d.writer.Rested()
	}
	d.mu.Unlock()
	if mine {
		d.flush(Never)
	}
}

// broken is deferred around what may panic on what a peer has sent: that costs its connection, not the others. If the
// panic has left a lock of the connection held, all who use the connection would wait for ever: then it ends the process.
func (d *Driver) broken(err *error) {
	v := recover()
	if v == nil {
		return
	}
	stack := debug.Stack()
	for _, mu := range []*sync.Mutex{&d.role.mu, &d.mu} {
		for until := time.Now().Add(lockTime); !mu.TryLock(); time.Sleep(time.Millisecond) {
			if time.Now().After(until) { // nobody else keeps it that long
				panic(v)
			}
		}
		mu.Unlock()
	}
	d.cfg.Logger.Error("panic: the connection ends", zap.Any("panic", v), zap.ByteString("stack", stack))
	*err = &verbs.ConnError{Op: "handle", Err: fmt.Errorf("%w: %v\n%s", verbs.ErrPanic, v, stack)}
}

// lockTime is far more than any lock of a connection is held.
const lockTime = 5 * time.Second

// parse handles every complete FPDU that is staged.
func (d *Driver) parse() (err error) {
	defer d.broken(&err)
	if d.rcv.Backlog.Len() > 0 {
		if err := d.replay(); err != nil {
			return err
		}
	}
	for d.st != nil {
		st, ev, err := d.rcv.Next(d.st)
		d.st = st
		if err != nil {
			return err
		}
		if ev.Kind == engine.EvNone || ev.Kind == engine.EvBlocked {
			break
		}
		if err := d.event(st, ev); err != nil {
			return err
		}
	}
	if d.st != nil && d.st.R == d.st.W {
		d.st.Release()
		d.st = nil
	}
	d.partial.keep(d.st)
	return nil
}

// event acts on the event of one FPDU.
func (d *Driver) event(st *buf.Staging, ev *engine.Event) error {
	switch ev.Kind {
	case engine.EvNone, engine.EvBlocked:
	case engine.EvRequest:
		d.mu.Lock()
		d.startExecutor()
		d.mu.Unlock()
	case engine.EvReadDone:
		return d.readDone(st)
	case engine.EvTerminate:
		return ev.Term
	case engine.EvStalled:
		d.stalled()
	case engine.EvRepeat:
		return d.upcall(st)
	case engine.EvMessage:
		return d.deliver(st, ev)
	}
	return nil
}

// readFailed ends the connection because a read has failed. The end of the stream is io.EOF between
// two FPDUs, and io.ErrUnexpectedEOF inside one.
func (d *Driver) readFailed(err error) error {
	if errors.Is(err, io.EOF) && d.st != nil {
		if cut := d.rcv.Deframer.EOF(d.st.Pending()); cut != nil {
			err = errors.Join(io.ErrUnexpectedEOF, cut)
		}
	}
	e := &verbs.ConnError{Op: "read", Err: err}
	d.fail(e)
	return e
}

// publish makes the receive counters visible to Stats.
func (d *Driver) publish() {
	d.in.Set(&d.rcv.In)
}

// source is a Driver as its link sees it. It belongs to the holder of the reading role.
type source Driver

// intake is what Room has prepared, for Got.
type intake struct {
	fresh  bool // the staging was borrowed for this read
	placed bool // the octets go to their places
	room   int  // octets of the staging
	much   bool // the last read filled its room, or brought more than a small staging holds
}

// Room implements Source. A link that waits with the memory gets little, unless the peer sends much.
func (s *source) Room(held bool) (flat []byte, places [][]byte) {
	d, in := (*Driver)(s), &s.intake
	in.fresh, in.placed = d.st == nil, false
	switch {
	case d.st != nil && !held:
		if places = d.places(); places != nil {
			in.placed = true
			return nil, places
		}
		if len(d.st.B) < buf.Big {
			// A parked staging is filled before a big one replaces it: there may be no input.
			if d.st.W < len(d.st.B) {
				in.room = len(d.st.B) - d.st.W
				return d.st.B[d.st.W:], nil
			}
			d.st = d.st.Move(buf.Big)
		}
	case d.st != nil:
	case held && !in.much:
		d.st = buf.NewStaging(buf.Small)
	default:
		d.st = buf.NewStaging(buf.Big)
	}
	d.st, flat = d.st.Room(d.rcv.Deframer.Need(d.st.Pending()))
	if in.fresh && !held && d.snd.Long.Load() > 0 {
		flat = flat[:engine.ShortRead]
	}
	in.room = len(flat)
	return flat, nil
}

// places returns where the next octets belong if they are the payloads of a Read Response, otherwise nil.
func (d *Driver) places() [][]byte {
	if len(d.st.B) < buf.Big || d.st.R == d.st.W {
		return nil
	}
	return d.rcv.Places(d.st)
}

// Got implements Source.
func (s *source) Got(n int) {
	d, in := (*Driver)(s), &s.intake
	switch {
	case n > 0 && in.placed:
		d.rcv.Landed(d.st, n)
	case n > 0:
		d.st.W += n
		in.much = n == in.room || n > buf.Small
	case in.placed:
		d.rcv.Missed()
	case in.fresh:
		d.st.Release()
		d.st = nil
	}
}
