package rdmap

import (
	"net"
	"sync"
	"sync/atomic"

	"github.com/stag-rdma/stag/rdmap/internal/buf"
	"github.com/stag-rdma/stag/rdmap/internal/drive"
	"github.com/stag-rdma/stag/rdmap/internal/engine"
	"github.com/stag-rdma/stag/rdmap/region"
	"go.uber.org/zap"
)

// Conn is one RDMAP stream over one byte-stream connection. All methods are
// safe for concurrent use.
type Conn struct {
	// The state has three owners. mu guards the sending half. The batch being written belongs
	// to whoever writes (writer). The receiving half belongs to
	// the holder of the reading role (reader). Locks are taken in the order reader.mu, mu.

	nc        net.Conn
	link      drive.Link
	cfg       Config
	log       *zap.Logger
	initiator bool
	table     *region.Table

	startup  sync.Once
	hsErr    error // result of the startup; before that, of Config.Check
	peerData []byte
	state    ConnectionState

	mu       sync.Mutex
	snd      engine.Sender
	writer   drive.Writer
	executes bool      // whoever handles the present input will call executeHere
	full     []*Waiter // those who wait for room in the send queue
	out      engine.Traffic
	flushes  uint64

	wk   engine.Work
	exec *execution // nil before the first request that may take long
	due  []engine.Completion

	// Owned by the holder of the reading role.
	rcv    *engine.Receiver
	st     *buf.Staging
	intake intake

	upcalls   atomic.Uint64 // odd: the holder is in an upcall
	takeovers atomic.Int64  // upcalls that have lost the role and still run
	taken     atomic.Uint64
	stalls    atomic.Uint64
	reads     atomic.Uint64
	in        engine.Published

	wake      wake
	watchdog  watchdog
	tick      *drive.Ticker
	partial   partial
	keepalive keepalive
	reader    reader
	ready     func()       // readable, made once
	waiting   atomic.Int32 // goroutines in Wait
	inbox     inbox
	spare     spareWaiters
	done      chan struct{}
}

// Client returns a Conn that will send the MPA Request on nc. It takes ownership of nc. A nil cfg
// means the defaults. Nothing is sent before Handshake, which also returns what is wrong with cfg.
func Client(nc net.Conn, cfg *Config) *Conn { return newConn(nc, cfg, true) }

// Server returns a Conn that will answer an MPA Request on nc. It takes ownership of nc. A nil cfg
// means the defaults.
func Server(nc net.Conn, cfg *Config) *Conn { return newConn(nc, cfg, false) }

func newConn(nc net.Conn, cfg *Config, initiator bool) *Conn {
	c := &Conn{nc: nc, initiator: initiator, done: make(chan struct{})}
	if c.hsErr = cfg.Check(); c.hsErr != nil {
		cfg = &Config{Logger: cfg.Logger} // for a connection that Handshake ends
	}
	c.cfg = cfg.withDefaults()
	c.log = c.cfg.Logger
	c.link = drive.NewLink(nc, c.cfg.Reading.BusyPoll)
	c.ready = c.readable
	c.table = c.cfg.Domain.NewTable()
	c.table.SetPrincipal(principal(nc.RemoteAddr()))
	c.snd.Limit, c.snd.Table, c.snd.Sinks = c.cfg.SendQueue, c.table, c.table
	c.snd.UsePooled()
	c.rcv = engine.NewReceiver(engine.ReceiverConfig{
		Table: c.table, Lock: &c.mu, Sender: &c.snd, Size: c.cfg.Receives.Size, Recvs: c.cfg.Receives.Count, Queue: c.cfg.Receives.Queue.shared(), Quota: c.cfg.Receives.Quota,
		Pool: c.cfg.Receives.Pool.mem, Keep: c.cfg.Handler == nil, Memory: c.cfg.Timeouts.Memory,
	})
	c.rcv.Arriving.Overdue, c.rcv.Claim.Wake = c.overdue, c.memoryBack
	c.partial.c = c
	c.keepalive.c = c
	c.tick = processTicker.Own(c.link.Shared())
	c.watchdog.c = c
	c.watchdog.t = processDog.Own(c.link.Shared())
	return c
}

// principal returns the address of a peer, without which it is told apart by its connection alone. So are
// the peers on loopback: they may stand for any number of users.
func principal(a net.Addr) string {
	if t, ok := a.(*net.TCPAddr); ok && !t.IP.IsLoopback() {
		return t.IP.String()
	}
	return ""
}

// PeerPrivateData returns the upper layer's private data from the peer's startup frame, without
// what the engines have added. The slice belongs to the Conn and must not be changed.
func (c *Conn) PeerPrivateData() []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.peerData
}

// ConnectionState returns the result of the startup.
func (c *Conn) ConnectionState() ConnectionState {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.state
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

// Done is closed when the connection is over and the net.Conn closed.
func (c *Conn) Done() <-chan struct{} { return c.done }

// Err returns the first fatal error, nil while the connection lives.
func (c *Conn) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.snd.Err()
}

// ended reports whether there has been a fatal error.
func (c *Conn) ended() bool { return c.snd.State().Ended() }

// PostRecv posts n more receives, so that the peer may send n more messages. Call it before the
// peer learns that it may send them. With Receives.Queue the receives are posted there, even after
// the end of the connection, and no longer count against its Quota.
func (c *Conn) PostRecv(n int) {
	if s := c.rcv.Receives; s != nil {
		s.Post(n)
		return
	}
	c.rcv.Recvs.Add(int64(n))
}

// LimitORD lowers the outbound request depth to n, at least 1, for all later requests: the upper
// layers may have agreed on fewer Reads at a time than the startup did (RFC 5666 Section 6.2). It
// never raises the depth. Call it after the startup.
func (c *Conn) LimitORD(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.snd.ORD = min(c.snd.ORD, max(n, 1))
	c.state.ORD = c.snd.ORD
}
