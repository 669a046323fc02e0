package drive

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stag-rdma/stag/rdmap/internal/buf"
	"github.com/stag-rdma/stag/rdmap/internal/engine"
	"github.com/stag-rdma/stag/rdmap/verbs"
	"go.uber.org/zap"
)

// Config has what a Driver needs. Nothing in it changes.
type Config struct {
	Startup     engine.StartupConfig
	Buffered    []byte        // octets of the startup that have been read already
	Timeout     time.Duration // of the startup
	NoKeepalive bool

	// Receiver configures the receiving half. Its Lock and Sender are those of the Driver.
	Receiver  engine.ReceiverConfig
	SendQueue int // octets

	Write, FPDU, Close time.Duration // see rdmap.Timeouts
	HandlerLimit       time.Duration
	MaxHandlers        int
	PartialFPDU        func(n int) // may be nil

	Logger *zap.Logger
}

// Upcalls is the layer above a Driver. All are made by the goroutine that reads.
type Upcalls interface {
	// Message delivers m, which is lent until Message returns. With Config.Receiver.Keep, m.Data and mem, the memory of
	// the Pool in which they lie, are the callee's, and Message must not block.
	Message(m *verbs.Message, mem buf.Mem)
	// Idle says that everything that was read has been delivered; what was posted meanwhile is written next.
	Idle()
	// Closed is the last upcall: err is the first fatal error. It is not made if there was no connection.
	Closed(err error)
}

// Driver runs a connection: it decides who reads and who writes, and has all its goroutines, locks and timers. Its
// methods may be called by anybody.
type Driver struct {
	constant
	start startup

	// Locks are taken in the order role.mu, mu.
	mu sync.Mutex
	locked
	writing
	reading
	shared

	watchdog  watchdog
	partial   partial
	keepalive keepalive
	role      role
	done      chan struct{}
}

// constant is set by New. The startup drops what of cfg only it needs.
type constant struct {
	cfg   Config
	nc    net.Conn
	link  Link
	up    Upcalls
	tick  *Ticker
	ready func() // readable, made once
}

// locked needs mu. It is the sending half.
type locked struct {
	snd        engine.Sender
	writer     Writer
	executes   bool      // whoever handles the present input will call executeHere
	full       []*Waiter // those who wait for room in the send queue
	out        engine.Traffic
	flushes    uint64
	keepsAlive bool // the peer may need keepalives
}

// writing belongs to whoever has begun to write, and exec to the executor.
type writing struct {
	wk   engine.Work
	exec *execution // nil before the first request that may take long
	due  []engine.Completion
}

// reading belongs to the holder of the reading role. It is the receiving half.
type reading struct {
	rcv    *engine.Receiver
	st     *buf.Staging
	intake intake
}

// shared may be read and changed by anybody.
type shared struct {
	upcalls   atomic.Uint64 // odd: the holder is in an upcall
	takeovers atomic.Int64  // upcalls that have lost the role and still run
	taken     atomic.Uint64
	stalls    atomic.Uint64
	reads     atomic.Uint64
	in        engine.Published
	waiting   atomic.Int32 // goroutines in Wait
	wake      wake
}

// The tickers of the process: of active connections, and the watchdog.
var (
	processTicker = NewTicker(tickEvery, 0, true)
	processDog    = NewTicker(watchdogRest, watchdogTick, true)
)

// New returns a Driver for the connection that Handshake will establish on nc, which it owns.
func New(nc net.Conn, cfg Config, up Upcalls) *Driver {
	d := &Driver{done: make(chan struct{})}
	d.constant = constant{cfg: cfg, nc: nc, link: NewLink(nc), up: up}
	d.ready = d.readable
	r := cfg.Receiver
	d.snd.Limit, d.snd.Table, d.snd.Sinks = cfg.SendQueue, r.Table, r.Table
	d.snd.UsePooled()
	r.Lock, r.Sender = &d.mu, &d.snd
	d.rcv = engine.NewReceiver(r)
	d.rcv.Arriving.Overdue, d.rcv.Claim.Wake = d.overdue, d.memoryBack
	d.partial.d, d.keepalive.d, d.watchdog.d = d, d, d
	d.tick = processTicker.Own(d.link.Shared())
	d.watchdog.t = processDog.Own(d.link.Shared())
	return d
}

// Done is closed when the connection is over and its net.Conn closed.
func (d *Driver) Done() <-chan struct{} { return d.done }

// Err returns the first fatal error, nil while the connection lives.
func (d *Driver) Err() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.snd.Err()
}

// ended reports whether there has been a fatal error.
func (d *Driver) ended() bool { return d.snd.State().Ended() }

// PostRecv posts n more receives.
func (d *Driver) PostRecv(n int) { d.rcv.Recvs.Add(int64(n)) }

// LimitRecv lowers the size of receives to n. Nothing may have been received yet.
func (d *Driver) LimitRecv(n int) { d.rcv.LimitSize(n) }

// LimitORD lowers the outbound request depth to n, at least 1.
func (d *Driver) LimitORD(n int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.snd.ORD = min(d.snd.ORD, max(n, 1))
}

// ORD returns the outbound request depth in force, once there is a connection.
func (d *Driver) ORD() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.snd.ORD
}

// Cancel ends the wait of done, the Done of a work request that was posted. It reports false if that may be in use
// still, see engine.Sender.Cancel.
func (d *Driver) Cancel(done verbs.Completer) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.snd.Cancel(done)
}

// WaitRoom waits until the send queue may have room again.
func (d *Driver) WaitRoom(ctx context.Context) error {
	var w Waiter
	w.Reset()
	d.mu.Lock()
	if d.snd.Copied == 0 {
		d.mu.Unlock()
		return nil
	}
	d.full = append(d.full, &w)
	d.mu.Unlock()
	return d.Wait(ctx, &w)
}

// wakeFull appends the Waiters that wait for room to due, with mu held.
func (d *Driver) wakeFull(due []engine.Completion) []engine.Completion {
	for i, w := range d.full {
		due = append(due, engine.Completion{Done: w})
		d.full[i] = nil
	}
	d.full = d.full[:0]
	return due
}

// Counters is what a Driver has counted.
type Counters struct {
	Reads, Flushes uint64 // calls of the link
	Takeovers      uint64 // upcalls that lost the reading role
	Stalls         uint64 // times queue 0 waited for the pool
	Staging        int    // octets of memory that hold an unfinished FPDU
}

// Counters returns a snapshot. It fills out, and publishes in the counters of what has come in.
func (d *Driver) Counters(out *engine.Traffic) (in *engine.Published, c Counters) {
	c = Counters{Reads: d.reads.Load(), Takeovers: d.taken.Load(), Stalls: d.stalls.Load(), Staging: int(d.partial.held.Load())}
	d.mu.Lock()
	defer d.mu.Unlock()
	*out, c.Flushes = d.out, d.flushes
	return &d.in, c
}
