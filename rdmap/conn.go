package rdmap

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stag-rdma/stag/internal/peeraddr"
	"github.com/stag-rdma/stag/internal/reading"
	"github.com/stag-rdma/stag/rdmap/internal/buf"
	"github.com/stag-rdma/stag/rdmap/internal/engine"
	"github.com/stag-rdma/stag/rdmap/mpa"
	"github.com/stag-rdma/stag/rdmap/region"
	"github.com/stag-rdma/stag/rdmap/verbs"
	"go.uber.org/zap"
)

// Conn is one RDMAP stream over one byte-stream connection. All methods are
// safe for concurrent use.
//
// It has the goroutines, locks and timers of the machines in package engine: read.go says who reads, write.go who
// writes, wait.go who sleeps, timers.go who is woken by a clock, and link.go what they do it on.
//
// Locks. role.Mu is taken before mu, and no other lock of a connection is held while either is taken: whoever releases
// the reading role decides with role.Mu held whether the connection has ended, which is a question to the sender. The
// reverse never occurs, because what is found under mu (completions, a failure) is acted on after mu is released: a
// Completer may call any method of the Conn. The receiving half has no lock. It belongs to whoever has the reading role,
// and passes from one to the next through role.Mu, or, when a role is taken from a running upcall, through upcalls.
// In the same way the batch that is being written belongs to the writer, and passes through mu.
type Conn struct {
	// Set by newConn. The startup drops what of cfg only it needs.
	cfg       Config // complete
	nc        net.Conn
	link      link
	table     *region.Table
	idle      IdleHandler // the Handler, if it is one
	initiator bool
	invalid   error           // what Config.Check found
	tick      *reading.Ticker // of active connections
	done      chan struct{}
	dev       *device // nil: the engine carries the connection, and all below that is not of the startup is its own

	// The startup runs once; startErr is valid after that. params is what it has negotiated, nil until it has succeeded.
	startOnce sync.Once
	startErr  error
	params    atomic.Pointer[engine.Params]

	// Under mu: the sending half. State and Long of snd may be read without it.
	mu         sync.Mutex
	snd        engine.Sender
	writer     writer
	executes   bool      // whoever handles the present input will call executeHere
	full       []*Waiter // those who wait for room in the send queue
	out        engine.Traffic
	flushes    uint64
	keepsAlive bool // the peer may need keepalives

	// Of whoever has begun to write; exec of the executor.
	wk   engine.Work
	exec *execution // nil before the first request that may take long
	due  []engine.Completion

	// Of the holder of the reading role: the receiving half.
	role   reading.Role
	rcv    *engine.Receiver
	st     *buf.Staging // nil between FPDUs
	intake intake

	// Of anybody.
	upcalls   atomic.Uint64 // odd: the holder is in an upcall
	takeovers atomic.Int64  // upcalls that have lost the role and still run
	taken     atomic.Uint64
	stalls    atomic.Uint64
	reads     atomic.Uint64
	in        engine.Published
	waiting   atomic.Int32 // goroutines in Wait
	memory    memoryWake
	inbox     inbox // without a Handler
	spare     spareWaiters

	// Of their tickers.
	watchdog  watchdog
	partial   partial
	keepalive keepalive
}

// Client returns a Conn that will send the MPA Request on nc. It takes ownership of nc. A nil cfg
// means the defaults. Nothing is sent before Handshake, which also returns what is wrong with cfg.
func Client(nc net.Conn, cfg *Config) *Conn { return newConn(nc, cfg, true) }

// Server returns a Conn that will answer an MPA Request on nc. It takes ownership of nc. A nil cfg
// means the defaults.
func Server(nc net.Conn, cfg *Config) *Conn { return newConn(nc, cfg, false) }

func newConn(nc net.Conn, cfg *Config, initiator bool) *Conn {
	c := &Conn{nc: nc, initiator: initiator}
	if c.invalid = cfg.Check(); c.invalid != nil {
		cfg = &Config{Logger: cfg.Logger} // for a connection that Handshake ends
	}
	c.cfg = cfg.withDefaults()
	c.idle, _ = c.cfg.Handler.(IdleHandler)
	c.table = c.cfg.Domain.NewTable()
	if who := peeraddr.Share(nc.RemoteAddr()); !peeraddr.Many(who) { // else it is told apart by its connection alone
		c.table.SetPrincipal(who)
	}
	if d, ok := nc.(Device); ok {
		return newDeviceConn(c, d)
	}
	c.link, c.done = newLink(nc), make(chan struct{})
	c.snd.Limit, c.snd.Table, c.snd.Sinks = c.cfg.SendQueue, c.table, c.table
	c.snd.UsePooled()
	c.rcv = engine.NewReceiver(engine.ReceiverConfig{
		Table: c.table, Lock: &c.mu, Sender: &c.snd,
		Size: c.cfg.Receives.Size, Recvs: c.cfg.Receives.Count,
		Pool: c.cfg.Receives.Pool.mem, Memory: c.cfg.Timeouts.Memory,
		Keep: c.cfg.Handler == nil, // Recv takes them later
	})
	c.rcv.Arriving.Overdue, c.rcv.Claim.Wake = c.overdue, c.memoryBack
	c.partial.c, c.keepalive.c, c.watchdog.c = c, c, c
	c.tick = reading.Process.Own(c.link.Shared())
	c.role.Init((*inlet)(c), c.link, c.tick)
	c.watchdog.t = processDog.Own(c.link.Shared())
	return c
}

// Handshake runs the MPA startup (RFC 5044 Section 7.1, RFC 6581). It must succeed before
// anything is posted. It runs once; later calls return the first result. An error closes the
// connection: ErrConfig if a setting is out of range; *RejectError if the peer refused; *ConnError if
// the stream failed, the peer's frame was malformed (it then wraps *mpa.FormatError) or the time was
// over. If it wraps ErrOlderPeer, another attempt may succeed.
func (c *Conn) Handshake(ctx context.Context) error {
	c.startOnce.Do(func() {
		if c.dev != nil {
			c.startErr = c.startDevice(ctx)
			return
		}
		told, err := false, c.invalid
		if err == nil {
			told, err = c.handshake(ctx)
		}
		if err != nil {
			c.startErr = err
			c.end(err, told)
		}
	})
	return c.startErr
}

// handshake is Handshake. told: the peer was sent the reason of the error, which should arrive.
func (c *Conn) handshake(ctx context.Context) (told bool, err error) {
	c.mu.Lock()
	err = c.snd.StartUp()
	c.mu.Unlock()
	if err != nil {
		return false, err
	}
	ctx, cancel := context.WithTimeout(ctx, c.cfg.Startup.timeout(c.initiator))
	defer cancel()
	// A net.Conn knows no context: a deadline in the past ends what waits in it.
	stop := context.AfterFunc(ctx, func() { _ = c.nc.SetDeadline(aLongTimeAgo) })
	p, told, err := c.exchange()
	if !stop() && ctx.Err() != nil && err == nil {
		err = ctx.Err() // the deadline has been set, and would end the first read
	}
	if err != nil {
		return told, startupError(ctx, err)
	}
	_ = c.nc.SetDeadline(time.Time{})
	return false, c.establish(p)
}

// startupError returns err as Handshake documents it.
func startupError(ctx context.Context, err error) error {
	if rej, ok := errors.AsType[*mpa.RejectError](err); ok {
		e := &verbs.RejectError{PrivateData: rej.Reply.PrivateData, IRD: -1, ORD: -1}
		if rej.Reply.Enhanced {
			e.IRD, e.ORD = int(rej.Reply.Word.IRD), int(rej.Reply.Word.ORD)
		}
		return e
	}
	if ctx.Err() != nil && !errors.Is(err, ctx.Err()) {
		// What the net.Conn says is that a deadline has passed; the caller knows the context only.
		err = errors.Join(ctx.Err(), err)
	}
	return &verbs.ConnError{Op: "handshake", Err: err}
}

// aLongTimeAgo is a deadline that has passed.
var aLongTimeAgo = time.Unix(1, 0)

// exchange exchanges the frames of the startup.
func (c *Conn) exchange() (p *engine.Params, told bool, err error) {
	s, request, err := engine.NewStartup(c.cfg.Startup.engine(c.initiator))
	if err != nil {
		return nil, false, err
	}
	if len(request) > 0 {
		if _, err := c.nc.Write(request); err != nil {
			return nil, false, err
		}
	}
	got, reply, err := c.startupFrame(s)
	if err != nil && s.Older(got) && c.hungUp(err) {
		return nil, false, fmt.Errorf("%w: %w", verbs.ErrOlderPeer, err)
	}
	if len(reply) > 0 {
		// A refusal is sent too (RFC 5044 Section 7.1.2, R=1), and err stays what it was.
		told = err != nil
		_, werr := c.nc.Write(reply)
		err = errors.Join(err, werr)
	}
	if err != nil {
		return nil, told, err
	}
	return s.Params(c.link.EMSS()), false, nil
}

// hungUp reports whether the stream ended because the peer closed it: with FIN, or with RST if it left
// a part of the Request unread.
func (c *Conn) hungUp(err error) bool {
	if oe, ok := errors.AsType[*net.OpError](err); ok && oe.Op != "read" {
		return false // a layer below, TLS, has been told why
	}
	return c.Err() == nil && !errors.Is(err, os.ErrDeadlineExceeded) &&
		!errors.Is(err, net.ErrClosed) && !errors.Is(err, io.ErrClosedPipe) // by our own side
}

// startupFrame reads until s has got its frame. It returns what has been read, and the reply.
func (c *Conn) startupFrame(s *engine.Startup) (got, reply []byte, err error) {
	got = append(make([]byte, 0, 1024), c.cfg.Startup.BufferedInput...)
	for {
		if len(got) > 0 {
			if done, reply, err := s.Input(got); err != nil || done {
				return got, reply, err
			}
		}
		if len(got) == cap(got) {
			return got, nil, io.ErrShortBuffer // cannot happen: a frame has at most 532 octets
		}
		n, err := c.nc.Read(got[len(got):cap(got)])
		got = got[:len(got)+n]
		if n == 0 && errors.Is(err, io.EOF) {
			return got, nil, errors.Join(io.ErrUnexpectedEOF, s.EOF(got))
		}
		if n == 0 && err != nil {
			return got, nil, err
		}
	}
}

// establish starts the engine with what was negotiated.
func (c *Conn) establish(p *engine.Params) error {
	c.cfg.Startup = Startup{} // its slices are borrowed until now
	c.mu.Lock()
	if c.ended() { // Abort came first
		defer c.mu.Unlock()
		return c.snd.Err()
	}
	c.keepsAlive = p.Initiator && !p.Stag // another stag needs none
	// params before the engine: who finds the state up may ask for them.
	c.params.Store(p)
	p.Start(&c.snd, c.rcv, &c.wk)
	c.mu.Unlock()
	c.flushIfReady(ifBlind) // the ready-to-receive message (RFC 6581 Section 9.2)
	c.cfg.Logger.Debug("established", zap.Bool("crc", p.CRC), zap.Int("mulpdu", p.MULPDU),
		zap.Int("ird", p.IRD), zap.Int("ord", p.ORD), zap.Bool("stag", p.Stag))
	// The first answer is on its way: until the first tick somebody will come to read it, and no watcher is needed.
	c.called()
	return nil
}

// begun waits for a Handshake that another goroutine runs. The Handshake of the peer may succeed
// first, and a caller that has seen that need not wait for ours itself. If there is none, begun returns
// ErrNoHandshake. For its outcome see Wait.
func (c *Conn) begun() error {
	if c.dev != nil {
		return c.begunDevice()
	}
	switch c.snd.State() {
	case engine.StateNew:
		return verbs.ErrNoHandshake
	case engine.StateStarting:
		c.startOnce.Do(func() {}) // returns when the one that runs has
	default:
	}
	return nil
}

// ConnectionState is the result of the startup.
type ConnectionState struct {
	// HandshakeComplete is false before Handshake has succeeded; the other
	// fields are then zero.
	HandshakeComplete bool
	Initiator         bool             // this side sent the MPA Request
	CRC               bool             // CRC32C is generated and checked
	IRD, ORD          int              // inbound and outbound request depth in force
	MULPDU            int              // largest ULPDU this side sends, octets
	StagPeer          bool             // the peer showed a stag capability block
	Extensions        verbs.Extensions // in force
	Revision          int              // MPA revision, 1 or 2
	SendMarkers       bool             // the peer asked for markers: this side sends them
	RecvMarkers       bool             // this side asked for markers: the peer sends them
	PeerToPeer        bool             // the initiator's first FPDU was a ready-to-receive message
}

// ConnectionState returns the result of the startup.
func (c *Conn) ConnectionState() ConnectionState {
	if c.dev != nil {
		c.dev.mu.Lock()
		defer c.dev.mu.Unlock()
		return c.dev.result
	}
	p := c.params.Load()
	if p == nil {
		return ConnectionState{}
	}
	c.mu.Lock()
	ord := c.snd.ORD // LimitORD may have lowered it
	c.mu.Unlock()
	return ConnectionState{
		HandshakeComplete: true, Initiator: p.Initiator, CRC: p.CRC, Revision: int(p.Rev), IRD: p.IRD, ORD: ord,
		SendMarkers: p.SendMarkers, RecvMarkers: p.RecvMarkers, PeerToPeer: p.PeerToPeer,
		StagPeer: p.Stag, Extensions: p.Extensions, MULPDU: p.MULPDU,
	}
}

// PeerPrivateData returns the upper layer's private data from the peer's startup frame, without
// what the engines have added. The slice belongs to the Conn and must not be changed.
func (c *Conn) PeerPrivateData() []byte {
	if c.dev != nil {
		c.dev.mu.Lock()
		defer c.dev.mu.Unlock()
		return c.dev.private
	}
	if p := c.params.Load(); p != nil {
		return p.PrivateData
	}
	return nil
}

// Table returns the region table of this stream. It exists from the start. Close, and every other
// end of the connection, invalidates its registrations.
func (c *Conn) Table() *region.Table { return c.table }

// Register calls Table().Register.
func (c *Conn) Register(mem []byte, access region.Access) (region.Region, error) {
	return c.table.Register(mem, access)
}

// LocalAddr returns the local address of the net.Conn.
func (c *Conn) LocalAddr() net.Addr { return c.nc.LocalAddr() }

// RemoteAddr returns the peer's address.
func (c *Conn) RemoteAddr() net.Addr { return c.nc.RemoteAddr() }

// LimitORD lowers the outbound request depth to n, at least 1, for all later requests: the upper
// layers may have agreed on fewer Reads at a time than the startup did (RFC 5666 Section 6.2). It
// never raises the depth. Call it after the startup.
func (c *Conn) LimitORD(n int) {
	if d := c.dev; d != nil {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.result.ORD = min(d.result.ORD, max(n, 1))
		d.Device.LimitORD(d.result.ORD)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.snd.ORD = min(c.snd.ORD, max(n, 1))
}

// LimitRecv lowers Receives.Size to n for a peer that has said that it sends no more (RFC 8797 Section 4).
// It never raises it. Call it in Startup.Accept. On a Device it does nothing.
func (c *Conn) LimitRecv(n int) {
	if c.dev == nil {
		c.rcv.LimitSize(n)
	}
}

// PostRecv posts n more receives, so that the peer may send n more messages. Call it before the
// peer learns that it may send them.
func (c *Conn) PostRecv(n int) {
	if c.dev != nil {
		c.dev.PostRecv(n)
		return
	}
	c.rcv.Recvs.Add(int64(n))
}

// Done is closed when the connection is over and the net.Conn closed.
func (c *Conn) Done() <-chan struct{} {
	if c.dev != nil {
		return c.dev.Over()
	}
	return c.done
}

// Err returns the first fatal error, nil while the connection lives.
func (c *Conn) Err() error {
	if c.dev != nil {
		return c.dev.Err()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.snd.Err()
}

// ended reports whether there has been a fatal error.
func (c *Conn) ended() bool { return c.snd.State().Ended() }

// Close sends the queued output, closes the stream gracefully, and returns the first fatal error
// of the connection before that, or nil. It waits at most Timeouts.Close for the output, and
// one second for the peer to close too. Work requests with an outstanding response fail with
// ErrClosed. Close must not be called from an upcall; Abort may. Close is idempotent.
func (c *Conn) Close() error {
	if c.dev != nil {
		return c.closeDevice()
	}
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

// terminateTimeout is how long the end of a connection waits for the peer to end the stream too.
const terminateTimeout = time.Second

// fail ends the connection because of err. After a violation by the peer a Terminate is sent first.
func (c *Conn) fail(err error) {
	_, told := errors.AsType[*verbs.TerminateError](err)
	c.end(err, told)
}

// end ends the connection with err, unless it has already ended. If graceful, what has begun is still sent. It does
// not wait; see Done.
func (c *Conn) end(err error, graceful bool) {
	if c.dev != nil {
		c.endDevice(err, graceful)
		return
	}
	c.mu.Lock()
	if c.ended() {
		c.mu.Unlock()
		return
	}
	due := c.snd.Fail(err, graceful, !c.writer.Idle(), nil)
	c.mu.Unlock()

	// Who waits for input would not notice. The lock makes an interrupt before it waits count too.
	c.role.Mu.Lock()
	c.role.Interrupt()
	c.role.Mu.Unlock()
	engine.Fire(due)
	c.flushIfReady(never) // the Terminate; end may be called in an upcall, which must not wait
	c.cfg.Logger.Debug("connection ends", zap.Error(err))
	go c.finish()
}

// finish carries out the end of the connection: it stops the upcalls, tells the handler and all
// waiters, gives the Terminate time to leave, closes the net.Conn and revokes every STag.
func (c *Conn) finish() {
	c.seize()
	c.rcv.Close()
	c.uncork() // a role that was taken from an upcall has left the writer corked
	if c.params.Load() != nil {
		c.closed(c.Err())
	}
	// The waiters after the handler: who is told by both finds the same world.
	c.role.Finish()
	drain := c.snd.State() != engine.StateClosed
	if drain {
		c.drain()
	}
	c.closeStream(drain)
	c.waitRest(terminateTimeout)
	c.mu.Lock()
	c.snd.Shut()
	c.mu.Unlock()
	if c.st != nil {
		c.st.Release()
		c.st = nil
	}
	c.partial.stop()
	// Last, since a system call of the writer may still be reading from registered memory until here.
	c.closeTable()
	close(c.done)
}

// seize takes the reading role for good. A running upcall loses it.
func (c *Conn) seize() {
	r := &c.role
	r.Mu.Lock()
	for !r.Seize(false) {
		if s := c.upcalls.Load(); s&1 == 1 && c.upcalls.CompareAndSwap(s, s+1) {
			c.takeovers.Add(1)
			if c.st != nil {
				c.st = c.st.Split()
			}
			r.Seize(true)
			break
		}
		freed := r.Freed()
		r.Mu.Unlock()
		// Also by time: a holder that is between two upcalls now may be inside one that blocks a moment later.
		select {
		case <-freed:
		case <-time.After(time.Millisecond):
		}
		r.Mu.Lock()
	}
	c.link.Forget()
	r.Mu.Unlock()
}

// drain gives the last octets time to arrive: it closes the sending direction, and reads until
// the peer has closed too. To close with unread input would send a reset, which can destroy a
// Terminate in flight.
func (c *Conn) drain() {
	// Behind a slow link what has begun takes its time, and the Terminate comes after it: the peer has to go on taking
	// octets, and may not take longer than it may be without taking any while the connection lives.
	end := time.Now().Add(c.cfg.Timeouts.Write)
	for was := c.wk.Batch.Written(); !c.waitRest(terminateTimeout); {
		now := c.wk.Batch.Written()
		if now == was || time.Now().After(end) {
			return
		}
		was = now
	}
	_ = c.nc.SetReadDeadline(time.Now().Add(terminateTimeout))
	if !c.link.CloseWrite() {
		return
	}
	_, _ = io.Copy(io.Discard, onlyReader{c.nc})
}

// onlyReader hides the other methods of a net.Conn from io.Copy.
type onlyReader struct{ io.Reader }

// closeStream closes the net.Conn. The Close of crypto/tls waits up to some seconds to send its
// alert; unless the end is graceful, the connection below TLS is closed first.
func (c *Conn) closeStream(graceful bool) {
	if below, ok := c.nc.(interface{ NetConn() net.Conn }); ok && !graceful {
		_ = below.NetConn().Close()
	}
	_ = c.nc.Close()
}

// waitRest waits, for most at most, until nobody writes or is about to. It reports whether that is so.
func (c *Conn) waitRest(most time.Duration) bool {
	c.mu.Lock()
	rest := c.writer.Rest()
	c.mu.Unlock()
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
