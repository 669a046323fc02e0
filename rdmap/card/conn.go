package card

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/stag-rdma/stag/rdmap"
	"github.com/stag-rdma/stag/rdmap/verbs"
	"go.uber.org/zap"
)

// state is where a connection is in its life. It only grows.
type state uint8

const (
	stateNew      state = iota // it has nothing of the card but the CM's id
	stateStarting              // Start runs, and owns the end
	stateUp                    // from here on whoever polls owns the end
	stateEnding                // err is set; what is posted is sent first if the end is graceful
	stateDown                  // the queue pair is in error: everything that is posted comes back
	stateOver                  // nothing of this side can be reached
)

// Conn is a connection on a card: one queue pair, one completion queue, one completion channel. It is an rdmap.Device.
//
// Whoever is in Serve polls. Everything else only posts, under mu, and says what should end. So the end is carried out in
// one place, by the poller, after what has come: see rest and finish.
type Conn struct {
	cfg           *Config
	end           endpoint
	request       *event // of a responder, nil at an initiator
	local, remote *net.TCPAddr
	events        chan *event // of the start-up
	over          chan struct{}
	news          atomic.Bool // something has changed since rest began
	caps          caps
	noCaps        error

	// Set by Start.
	dc  *rdmap.DeviceConfig
	dev *device
	qp  queuePair
	now atomic.Pointer[queuePair] // qp, for wake

	mu      sync.Mutex
	state   state
	err     error         // the first
	stopped chan struct{} // closed with err, for Start
	drain   bool          // of stateEnding
	by      time.Time     // when the state has lasted long enough
	parted  error         // the CM or a completion says that the connection has ended, when what has come is taken
	names   map[*named]struct{}
	stats   rdmap.Stats
	sending
	receiving
}

var _ rdmap.Device = (*Conn)(nil)

func newConn(cfg *Config, end endpoint, local, remote *net.TCPAddr) *Conn {
	c := &Conn{
		cfg: cfg, end: end, local: local, remote: remote, events: make(chan *event, 8), over: make(chan struct{}),
		stopped: make(chan struct{}), names: make(map[*named]struct{}),
	}
	c.caps, c.noCaps = end.caps()
	return c
}

// Read and Write fail: octets do not pass here. A wrapper that calls them hides the Device.
func (c *Conn) Read([]byte) (int, error) {
	return 0, fmt.Errorf("card: %w: a card carries messages, not a stream (something wraps the connection)", errors.ErrUnsupported)
}

// Write fails, see Read.
func (c *Conn) Write(p []byte) (int, error) { return c.Read(p) }

// LocalAddr returns the address of this end.
func (c *Conn) LocalAddr() net.Addr { return c.local }

// RemoteAddr returns that of the peer.
func (c *Conn) RemoteAddr() net.Addr { return c.remote }

// SetDeadline does nothing, like SetReadDeadline and SetWriteDeadline: nothing is read or written.
func (c *Conn) SetDeadline(time.Time) error { return nil }

// SetReadDeadline does nothing.
func (c *Conn) SetReadDeadline(time.Time) error { return nil }

// SetWriteDeadline does nothing.
func (c *Conn) SetWriteDeadline(time.Time) error { return nil }

// Close ends the connection at once. It does not wait.
func (c *Conn) Close() error {
	c.End(verbs.ErrClosed, false)
	return nil
}

// Caps implements rdmap.Device.
func (c *Conn) Caps() rdmap.DeviceCaps {
	return rdmap.DeviceCaps{SendInvalidate: true}
}

// event takes the CM's events, in the goroutine of the manager.
func (c *Conn) event(ev *event) {
	switch ev.kind {
	case eventDisconnected:
		c.part(&verbs.ConnError{Op: "read", Err: io.EOF})
	case eventRemoval:
		c.cfg.Logger.Error("card: the device of a connection was removed", zap.Stringer("peer", c.remote))
		c.End(&verbs.ConnError{Op: "read", Err: ErrRemoved}, false)
	case eventTimewait, eventAddrChange:
	default:
		select {
		case c.events <- ev:
		default: // nobody waits for it
		}
	}
}

// part ends the connection with err once what has come is taken: the news of the end is faster than the last messages.
func (c *Conn) part(err error) {
	c.mu.Lock()
	starting := c.state < stateUp
	c.parted, c.flushed = err, false // the CM knows better than a completion why
	c.mu.Unlock()
	if starting {
		c.End(err, false)
	}
	c.wake()
}

// wake has the poller look again. It takes no lock: who gives memory back may hold that of another connection.
func (c *Conn) wake() {
	c.news.Store(true)
	if qp := c.now.Load(); qp != nil {
		(*qp).interrupt()
	}
}

// Start implements rdmap.Device.
func (c *Conn) Start(ctx context.Context, dc *rdmap.DeviceConfig) (st rdmap.ConnectionState, err error) {
	c.mu.Lock()
	if c.state != stateNew {
		defer c.mu.Unlock()
		return st, c.err
	}
	c.state, c.dc = stateStarting, dc
	c.mu.Unlock()
	st, err = c.start(ctx, dc)
	c.mu.Lock()
	if c.err != nil { // End came first
		err = c.err
	}
	if err == nil {
		c.state = stateUp
		c.moved = time.Now()
		c.mu.Unlock()
		return st, nil
	}
	if c.err == nil {
		c.err = err
		close(c.stopped)
	}
	c.state = stateEnding
	c.mu.Unlock()
	go func() { _ = c.serve(false) }() // nothing was posted but receives: no upcall is made
	return rdmap.ConnectionState{}, err
}

func (c *Conn) start(ctx context.Context, dc *rdmap.DeviceConfig) (st rdmap.ConnectionState, err error) {
	if err = c.noCaps; err == nil {
		c.dev, err = c.cfg.device(c.end.device(), c.end.open)
	}
	var qp queuePair
	if err == nil {
		dc.Table.SetNamer(c)
		qp, err = c.end.pair(c.dev.dom, c.caps)
	}
	if err != nil {
		return st, &verbs.ConnError{Op: "handshake", Err: err}
	}
	c.mu.Lock()
	c.qp = qp
	c.mu.Unlock()
	c.now.Store(&qp)
	private := dc.PrivateData
	ird, ord := min(dc.IRD, c.caps.reads), min(dc.ORD, c.caps.reads)
	if !dc.Initiator {
		if !c.caps.iwarp { // Linux's client asks for none over iWARP, and takes what it gets
			ird, ord = min(ird, c.request.asked), min(ord, c.request.may)
		}
		// Before the peer knows that it may send: Accept posts receives.
		if private, err = dc.Accept(c.request.private); err != nil {
			c.end.reject(private)
			return st, err
		}
	}
	c.setORD(ord)
	c.PostRecv(max(dc.Recvs, 0))
	select {
	case <-c.stopped: // no memory for receives, or Close
		if !dc.Initiator {
			c.end.reject(nil)
		}
		return st, c.Err()
	default:
	}
	if err := c.end.start(!dc.Initiator, private, ird, ord); err != nil {
		return st, &verbs.ConnError{Op: "handshake", Err: err}
	}
	select {
	case ev := <-c.events:
		switch {
		case ev.kind == eventRejected:
			return st, refused(ev)
		case ev.kind != eventEstablished:
			return st, &verbs.ConnError{Op: "handshake", Err: ev.err()}
		}
		if dc.Initiator {
			if !c.caps.iwarp {
				ird, ord = min(ird, ev.asked), min(ord, ev.may)
				c.setORD(ord)
			}
			if _, err := dc.Accept(ev.private); err != nil {
				return st, err
			}
		}
	case <-c.stopped:
		return st, c.Err()
	case <-ctx.Done():
		return st, &verbs.ConnError{Op: "handshake", Err: ctx.Err()}
	}
	return rdmap.ConnectionState{HandshakeComplete: true, Initiator: dc.Initiator, CRC: true, IRD: ird, ORD: ord, Revision: 2}, nil
}

// Refuse implements rdmap.Device.
func (c *Conn) Refuse(private []byte) {
	c.endNew(&verbs.ConnError{Op: "handshake", Err: syscall.ECONNREFUSED}, private)
}

// endNew ends a connection that has not started. It reports whether this one has not.
func (c *Conn) endNew(err error, private []byte) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.state != stateNew {
		return false
	}
	c.state, c.err = stateOver, err
	close(c.stopped)
	private = append([]byte(nil), private...)
	go func() { // the caller may be the manager, which destroying waits for
		if c.request != nil {
			c.end.reject(private)
		}
		c.end.destroy()
		close(c.over)
	}()
	return true
}

// End implements rdmap.Device.
func (c *Conn) End(err error, graceful bool) {
	if c.endNew(err, nil) {
		return
	}
	c.mu.Lock()
	news := c.err == nil || c.drain && !graceful
	if c.err == nil {
		c.err = err
		close(c.stopped)
		if c.state == stateUp {
			c.state, c.drain = stateEnding, graceful
		}
	} else if !graceful {
		c.drain = false
	}
	c.mu.Unlock()
	if news {
		c.wake()
	}
}

// Err implements rdmap.Device.
func (c *Conn) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// Over implements rdmap.Device.
func (c *Conn) Over() <-chan struct{} { return c.over }

// Stats implements rdmap.Device.
func (c *Conn) Stats() rdmap.Stats {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.stats
}

// Times of a connection that nothing else bounds.
const (
	// keepaliveAfter is how long nothing comes or goes before the peer is asked for a sign of life, which the card gets by
	// itself. A reliable connection has nothing else that notices a peer that is gone.
	keepaliveAfter = 10 * time.Second
	// stallTime is how long what is posted may make no progress. RoCE gives up earlier by itself, TCP below iWARP after
	// a quarter of an hour.
	stallTime = 30 * time.Second
	// partTime is how long completions may say that the connection has ended before the CM says why: siw flushes first.
	partTime = time.Second
	// flushTime is how long flushed work may take to come back. Some of it rxe forgets; destroying the queue pair is
	// the guarantee that the card touches nothing of it.
	flushTime = time.Second
)

// Serve implements rdmap.Device.
func (c *Conn) Serve() error { return c.serve(true) }

// serve polls until the connection is over. up: upcalls are made.
func (c *Conn) serve(up bool) error {
	var got [16]wc
	armed := false
	for c.qp != nil {
		n, err := c.qp.poll(got[:])
		for i := range n {
			c.complete(&got[i])
		}
		if n > 0 {
			continue
		}
		if err == nil && !armed {
			if up && c.Err() == nil {
				c.dc.Idle()
			}
			err, armed = c.qp.arm(), true
			if err == nil { // what came before it was armed makes no event
				continue
			}
		}
		if err != nil {
			c.End(&verbs.ConnError{Op: "read", Err: err}, false)
		}
		if c.rest() {
			break
		}
		if c.news.Load() {
			continue
		}
		woken, err := c.qp.wait()
		if err != nil {
			c.End(&verbs.ConnError{Op: "read", Err: err}, false)
		}
		armed = armed && !woken
	}
	c.finish(up)
	return c.Err()
}

// rest is called when there is nothing to poll. It carries the state on, posts what waits, and sets the time at which to
// look again. It reports whether the connection is over.
func (c *Conn) rest() (over bool) {
	c.news.Store(false) // before anything is looked at: what changes from now on ends the wait
	now := time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	next := now.Add(time.Hour)
	if c.state == stateUp {
		c.pump()
		switch idle := now.Sub(c.moved); {
		case c.parted != nil && (!c.flushed || !now.Before(c.by)):
			c.err, c.state = c.parted, stateEnding
			close(c.stopped)
		case c.flushed:
			next = c.by
		case len(c.posted) > 0 && idle >= stallTime:
			c.err, c.state = &verbs.ConnError{Op: "write", Err: fmt.Errorf("card: the peer's card does not answer: %w", os.ErrDeadlineExceeded)}, stateEnding
			close(c.stopped)
		case len(c.posted) > 0:
			next = c.moved.Add(stallTime)
		case len(c.pending) > 0: // for memory, which wakes
		case idle >= keepaliveAfter:
			c.moved = now
			c.keepalive()
			next = now.Add(stallTime)
		default:
			next = c.moved.Add(keepaliveAfter)
		}
	}
	if c.state == stateEnding {
		if c.drain && c.busy() { // Conn gives that its time
			c.pump()
		} else {
			c.state, c.by = stateDown, now.Add(flushTime)
			c.mu.Unlock() // the CM's calls take their time
			c.qp.stop()
			c.mu.Lock()
			next = now // to poll again
		}
	} else if c.state == stateDown {
		if len(c.posted) == 0 && c.receives == 0 || !now.Before(c.by) {
			return true
		}
		next = c.by
	}
	c.qp.rest(next)
	return false
}

// finish ends everything, in the order in which one needs the other: when the queue pair is gone nothing of this side can
// be reached, and when the CM's id is gone the device may close.
func (c *Conn) finish(up bool) {
	c.mu.Lock()
	c.state = stateOver
	names := c.names
	c.names = nil
	c.mu.Unlock()
	if c.qp != nil {
		c.qp.destroy()
	}
	c.failAll(up)
	for n := range names {
		n.r.end()
	}
	if c.dev != nil {
		c.freeSlots()
		c.dev.leave(c)
	}
	c.end.destroy()
	if up {
		c.dc.Closed(c.Err())
	}
	close(c.over)
}
