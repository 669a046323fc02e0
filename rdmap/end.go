package rdmap

import (
	"context"
	"errors"
	"io"
	"net"
	"time"

	"github.com/stag-rdma/stag/rdmap/internal/drive"
	"github.com/stag-rdma/stag/rdmap/internal/engine"
	"github.com/stag-rdma/stag/rdmap/verbs"
	"go.uber.org/zap"
)

// fail ends the connection with err, unless it has already ended. Work requests that are not being
// written complete with err. After a violation by the peer a Terminate is sent first.
func (c *Conn) fail(err error) {
	_, told := errors.AsType[*verbs.TerminateError](err)
	c.end(err, told)
}

// end is fail; if graceful, what has begun is still sent.
func (c *Conn) end(err error, graceful bool) {
	c.mu.Lock()
	if c.ended() {
		c.mu.Unlock()
		return
	}
	due := c.snd.Fail(err, graceful, !c.writer.Idle(), nil)
	c.mu.Unlock()

	c.reader.mu.Lock()
	c.interrupt()
	c.reader.mu.Unlock()
	engine.Fire(due)
	c.flushIfReady(drive.Never)
	c.log.Debug("connection ends", zap.Error(err))
	go c.finish()
}

// finish carries out the end of the connection: it stops the upcalls, tells the handler and all
// waiters, gives the Terminate time to leave, closes the net.Conn and revokes every STag.
func (c *Conn) finish() {
	c.seize()
	c.rcv.Close()
	c.uncork()
	if h := c.cfg.Handler; h != nil && c.ConnectionState().HandshakeComplete {
		h.HandleClose(c, c.Err())
	}
	c.reader.mu.Lock()
	c.reader.End()
	c.reader.wakeAll()
	c.reader.mu.Unlock()
	drain := c.snd.State() != engine.StateClosed
	if drain {
		c.drain()
	}
	c.closeStream(drain)
	c.waitRest(DefaultTerminateTimeout)
	c.mu.Lock()
	c.snd.Shut()
	c.mu.Unlock()
	if c.st != nil {
		c.st.Release()
		c.st = nil
	}
	c.partial.stop()
	c.inbox.settle(c)
	ctx, cancel := context.WithTimeout(context.Background(), DefaultTerminateTimeout)
	defer cancel()
	if err := c.table.Close(ctx); err != nil {
		c.log.Warn("memory still in use at the end of the connection", zap.Error(err))
	}
	close(c.done)
}

// seize takes the reading role for good. A running upcall loses it.
func (c *Conn) seize() {
	r := &c.reader
	r.mu.Lock()
	for !r.Seize(false) {
		if s := c.upcalls.Load(); s&1 == 1 && c.upcalls.CompareAndSwap(s, s+1) {
			c.takeovers.Add(1)
			if c.st != nil {
				c.st = c.st.Split()
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
	c.link.Forget()
	r.mu.Unlock()
}

// drain gives the last octets time to arrive: it closes the sending direction, and reads until
// the peer has closed too. To close with unread input would send a reset, which can destroy a
// Terminate in flight.
func (c *Conn) drain() {
	_ = c.nc.SetReadDeadline(time.Now().Add(DefaultTerminateTimeout))
	if !c.waitRest(DefaultTerminateTimeout) || !c.link.CloseWrite() {
		return
	}
	_, _ = io.Copy(io.Discard, onlyReader{c.nc})
}

// closeStream closes the net.Conn. The Close of crypto/tls waits up to some seconds to send its
// alert; unless the end is graceful, the connection below TLS is closed first.
func (c *Conn) closeStream(graceful bool) {
	if below, ok := c.nc.(interface{ NetConn() net.Conn }); ok && !graceful {
		_ = below.NetConn().Close()
	}
	_ = c.nc.Close()
}

// onlyReader hides the other methods of a net.Conn from io.Copy.
type onlyReader struct{ io.Reader }

// waitRest waits, at most d, until nobody writes or is about to. It reports whether that is so.
func (c *Conn) waitRest(d time.Duration) bool {
	c.mu.Lock()
	rest := c.writer.Rest()
	c.mu.Unlock()
	if rest == nil {
		return true
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-rest:
		return true
	case <-t.C:
		return false
	}
}

// Close sends the queued output, closes the stream gracefully, and returns the first fatal error
// of the connection before that, or nil. It waits at most Timeouts.Close for the output, and
// one second for the peer to close too. Work requests with an outstanding response fail with
// ErrClosed. Close must not be called from an upcall; Abort may. Close is idempotent.
func (c *Conn) Close() error {
	c.mu.Lock()
	first, wait := c.snd.Err(), c.snd.Close()
	c.mu.Unlock()
	if wait {
		c.waitRest(c.cfg.Timeouts.Close)
	}
	c.end(verbs.ErrClosed, c.snd.State().Up())
	<-c.done
	if errors.Is(first, verbs.ErrClosed) {
		return nil
	}
	return first
}

// Abort ends the connection at once with err as its first fatal error; nil stands for ErrClosed.
// Queued output is dropped, and no Terminate is sent. Abort may be called anywhere and does not
// wait; see Done.
func (c *Conn) Abort(err error) {
	if err == nil {
		err = verbs.ErrClosed
	}
	c.end(err, false)
}

// Terminate sends a Terminate with code and no headers, and ends the connection with a LocalError
// that holds code and err, which may be nil. It is for an upper layer that cannot go on.
// TermCode{} is RDMAP's local catastrophic error (RFC 5040 Section 4.8). Terminate may be called
// anywhere and does not wait.
func (c *Conn) Terminate(code verbs.TermCode, err error) {
	c.end(&verbs.LocalError{Code: code, Err: err}, true)
}
