package drive

import (
	"context"
	"errors"
	"io"
	"net"
	"time"

	"github.com/stag-rdma/stag/rdmap/internal/engine"
	"github.com/stag-rdma/stag/rdmap/verbs"
	"go.uber.org/zap"
)

// TerminateTimeout is how long the end of a connection waits for the peer to end the stream too.
const TerminateTimeout = time.Second

// fail ends the connection because of err. After a violation by the peer a Terminate is sent first.
func (d *Driver) fail(err error) {
	_, told := errors.AsType[*verbs.TerminateError](err)
	d.End(err, told)
}

// End ends the connection with err, unless it has already ended. If graceful, what has begun is still sent. It does
// not wait; see Done.
func (d *Driver) End(err error, graceful bool) {
	d.mu.Lock()
	if d.ended() {
		d.mu.Unlock()
		return
	}
	due := d.snd.Fail(err, graceful, !d.writer.Idle(), nil)
	d.mu.Unlock()

	d.role.mu.Lock()
	d.interrupt()
	d.role.mu.Unlock()
	engine.Fire(due)
	d.flushIfReady(Never)
	d.cfg.Logger.Debug("connection ends", zap.Error(err))
	go d.finish()
}

// finish carries out the end of the connection: it stops the upcalls, tells the handler and all
// waiters, gives the Terminate time to leave, closes the net.Conn and revokes every STag.
func (d *Driver) finish() {
	d.seize()
	d.rcv.Close()
	d.uncork()
	if d.Params() != nil {
		d.up.Closed(d.Err())
	}
	d.role.mu.Lock()
	d.role.End()
	d.role.wakeAll()
	d.role.mu.Unlock()
	drain := d.snd.State() != engine.StateClosed
	if drain {
		d.drain()
	}
	d.closeStream(drain)
	d.waitRest(TerminateTimeout)
	d.mu.Lock()
	d.snd.Shut()
	d.mu.Unlock()
	if d.st != nil {
		d.st.Release()
		d.st = nil
	}
	d.partial.stop()
	ctx, cancel := context.WithTimeout(context.Background(), TerminateTimeout)
	defer cancel()
	if err := d.cfg.Receiver.Table.Close(ctx); err != nil {
		d.cfg.Logger.Warn("memory still in use at the end of the connection", zap.Error(err))
	}
	close(d.done)
}

// seize takes the reading role for good. A running upcall loses it.
func (d *Driver) seize() {
	r := &d.role
	r.mu.Lock()
	for !r.Seize(false) {
		if s := d.upcalls.Load(); s&1 == 1 && d.upcalls.CompareAndSwap(s, s+1) {
			d.takeovers.Add(1)
			if d.st != nil {
				d.st = d.st.Split()
			}
			r.Seize(true)
			break
		}
		if r.freed == nil {
			r.freed = make(chan struct{})
		}
		freed := r.freed
		r.mu.Unlock()
		select {
		case <-freed:
		case <-time.After(time.Millisecond):
		}
		r.mu.Lock()
	}
	d.link.Forget()
	r.mu.Unlock()
}

// drain gives the last octets time to arrive: it closes the sending direction, and reads until
// the peer has closed too. To close with unread input would send a reset, which can destroy a
// Terminate in flight.
func (d *Driver) drain() {
	// Behind a slow link what has begun takes its time, and the Terminate comes after it: the peer has to go on taking
	// octets, and may not take longer than it may be without taking any while the connection lives.
	end := time.Now().Add(d.cfg.Write)
	for was := d.wk.Batch.Written(); !d.waitRest(TerminateTimeout); {
		now := d.wk.Batch.Written()
		if now == was || time.Now().After(end) {
			return
		}
		was = now
	}
	_ = d.nc.SetReadDeadline(time.Now().Add(TerminateTimeout))
	if !d.link.CloseWrite() {
		return
	}
	_, _ = io.Copy(io.Discard, onlyReader{d.nc})
}

// closeStream closes the net.Conn. The Close of crypto/tls waits up to some seconds to send its
// alert; unless the end is graceful, the connection below TLS is closed first.
func (d *Driver) closeStream(graceful bool) {
	if below, ok := d.nc.(interface{ NetConn() net.Conn }); ok && !graceful {
		_ = below.NetConn().Close()
	}
	_ = d.nc.Close()
}

// onlyReader hides the other methods of a net.Conn from io.Copy.
type onlyReader struct{ io.Reader }

// waitRest waits, for most at most, until nobody writes or is about to. It reports whether that is so.
func (d *Driver) waitRest(most time.Duration) bool {
	d.mu.Lock()
	rest := d.writer.Rest()
	d.mu.Unlock()
	if rest == nil {
		return true
	}
	t := time.NewTimer(most)
	defer t.Stop()
	select {
	case <-rest:
		return true
	case <-t.C:
		return false
	}
}

// Close ends the connection when what is queued has been sent, or Config.Close is over, and returns its first
// fatal error before that, or nil.
func (d *Driver) Close() error {
	d.mu.Lock()
	first, wait := d.snd.Err(), d.snd.Close()
	d.mu.Unlock()
	if wait {
		d.waitRest(d.cfg.Close)
	}
	d.End(verbs.ErrClosed, d.snd.State().Up())
	<-d.done
	if errors.Is(first, verbs.ErrClosed) {
		return nil
	}
	return first
}
