package rdmap

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stag-rdma/stag/internal/setting"
	"github.com/stag-rdma/stag/rdmap/internal/engine"
	"github.com/stag-rdma/stag/rdmap/mpa"
	"github.com/stag-rdma/stag/rdmap/region"
	"github.com/stag-rdma/stag/rdmap/verbs"
	"go.uber.org/zap"
)

// Device is a net.Conn whose connection an RDMA card carries: Client and Server use it in the place of the engine. Its
// Read and Write fail, and so does a wrapper that hides its other methods.
//
// Conn calls it in this order: Caps at any time; Refuse, or Start once; if Start has succeeded, the other methods from
// any goroutine, Serve once. A Device makes upcalls, the functions of DeviceConfig, in Serve only, one at a time, and
// never with a lock held that its methods take: upcalls post.
type Device interface {
	net.Conn
	Caps() DeviceCaps

	// Start makes the connection before ctx ends. cfg stays valid. It calls cfg.Table.SetNamer before anything can be
	// registered, and cfg.Accept with the peer's private data, from which on PostRecv must work. Errors are of the
	// types that Handshake documents; the Device has then ended, and Over is closed soon, without Serve.
	Start(ctx context.Context, cfg *DeviceConfig) (ConnectionState, error)

	// Refuse ends, in place of Start, a connection that a peer has asked for and that gets no memory here. private is
	// sent to the peer. It does not wait; Over is closed soon.
	Refuse(private []byte)

	// Post submits work requests: all of them, adjacent and in order, or none. Conn has refused misuse, and what Caps
	// lacks. It does not wait, calls no Completer, and keeps what the card has no room for now. wrs is borrowed until it
	// returns; for the payloads see verbs.WR. Each completes by one call of DeviceConfig.Completed, also at the end.
	Post(wrs []verbs.WR) error
	PostRecv(n int)
	LimitORD(n int)

	// Serve polls until the connection has ended and all work has completed, then calls cfg.Closed, closes Over and
	// returns Err. When it calls cfg.Closed no memory of this side can be reached any more, and every region.Named has
	// been dropped.
	Serve() error

	// End ends the connection with err, unless it has ended: if graceful, when what was posted has been sent, for which
	// it may wait as long as it likes: a second call, not graceful, ends that. It does not wait; before Start it closes
	// Over.
	End(err error, graceful bool)
	Err() error            // the first fatal error, nil while the connection lives
	Over() <-chan struct{} // closed when the Device is gone, with all that it has of cfg
	Stats() Stats
}

// DeviceCaps says what a Device can do. It is asked before the private data are formed.
type DeviceCaps struct {
	Windows        bool // memory that peers may reach can be invalidated by their Sends: a client may say so in RFC 8797
	SendInvalidate bool // Sends with Invalidate can be posted
}

// DeviceConfig is what a Conn tells its Device.
type DeviceConfig struct {
	Initiator   bool
	PrivateData []byte // of the initiator; lent until Start returns

	// Accept takes the peer's private data, perhaps with zeros behind them. At the responder it is called before the
	// peer is answered, with what it returns; an error refuses. At the initiator its result means nothing.
	Accept func(private []byte) ([]byte, error)

	RecvSize int // octets of each receive
	Recvs    int // receives to post before the peer can send
	SendSize int // octets that most Sends have at most
	IRD, ORD int // wanted; 0: none. ConnectionState has those in force, at most these
	Table    *region.Table

	Message   func(m *verbs.Message)        // a Send has come; m and its Data are lent. Order is set by Conn
	Completed func(wr *verbs.WR, err error) // a copy of what was posted is over
	Idle      func()                        // what has come is handled, before Serve waits
	Closed    func(err error)               // see Serve
	Logger    *zap.Logger                   // not nil
}

// device is what a Conn has in the place of the engine.
type device struct {
	Device
	state  atomic.Uint32 // one of those below
	polled atomic.Bool   // Device.Serve is called, or about to be
	served atomic.Bool   // Conn.Serve was called
	quits  atomic.Bool   // this side has ended the connection
	order  uint64        // of the last message; Serve has it

	mu      sync.Mutex
	result  ConnectionState
	private []byte
	wrs     []verbs.WR  // see postDevice
	hurry   *time.Timer // ends a graceful end; nil: there is none
}

// States of a device.
const (
	deviceNew      uint32 = iota // left by Handshake, and by the end
	deviceStarting               // left when Start returns
	deviceUp                     // for good, also after the end
	deviceFailed                 // for good
)

// checkDevice refuses settings of the engine. A Device that would pass over them could carry other octets than those
// that its user has asked for.
func (s *Startup) checkDevice() error {
	for _, f := range [...]struct {
		name string
		set  bool
	}{
		{"CRC", s.CRC != CRCPeer},
		{"Revision", s.Revision == 1},
		{"Markers", s.Markers},
		{"PeerToPeer", s.PeerToPeer},
		{"RTR", s.RTR != 0},
		{"MULPDU", s.MULPDU != 0},
		{"Extensions", s.Extensions != 0},
		{"BufferedInput", len(s.BufferedInput) > 0},
	} {
		if f.set {
			return fmt.Errorf("rdmap: %w", setting.Error("Startup.%s is of the iWARP engine, and a Device carries this connection: leave it unset", f.name))
		}
	}
	return nil
}

// newDeviceConn is newConn for a Device.
func newDeviceConn(c *Conn, d Device) *Conn {
	c.dev = &device{Device: d}
	if c.invalid == nil {
		c.invalid = c.cfg.Startup.checkDevice()
	}
	c.table.SetNamer(unstarted{})
	return c
}

// unstarted is the Namer of a Device before Start.
type unstarted struct{}

func (unstarted) Name([]byte, region.Access) (region.Named, error) {
	return nil, verbs.ErrNoHandshake
}

// startDevice is Handshake.
func (c *Conn) startDevice(ctx context.Context) error {
	d, f := c.dev, &c.cfg
	if !d.state.CompareAndSwap(deviceNew, deviceStarting) {
		return d.Err() // Abort came first
	}
	if c.invalid != nil {
		d.state.Store(deviceFailed)
		c.endDevice(c.invalid, false)
		return c.invalid
	}
	ctx, cancel := context.WithTimeout(ctx, f.Startup.timeout(c.initiator))
	defer cancel()
	st, err := d.Start(ctx, &DeviceConfig{
		Initiator: c.initiator, PrivateData: f.Startup.PrivateData,
		RecvSize: f.Receives.Size, Recvs: f.Receives.Count, SendSize: f.Receives.Size,
		IRD: f.Startup.IRD, ORD: f.Startup.ORD, Table: c.table, Logger: f.Logger,
		Accept: c.acceptDevice, Message: c.deviceMessage, Completed: c.deviceCompleted,
		Idle: c.idled, Closed: c.deviceClosed,
	})
	if err != nil {
		d.state.Store(deviceFailed)
		c.closeTable()
		return err
	}
	d.mu.Lock()
	d.result = st
	d.mu.Unlock()
	d.state.Store(deviceUp)
	c.cfg.Startup = Startup{} // its slices are borrowed until now
	if d.Err() != nil || c.initiator {
		// Nobody polls a client's connection otherwise: callers wait for what the poller completes.
		c.pollDevice()
	}
	return nil
}

// acceptDevice is DeviceConfig.Accept. The upper layer of a responder sees a Request as MPA has it.
func (c *Conn) acceptDevice(private []byte) ([]byte, error) {
	c.dev.mu.Lock()
	c.dev.private = private
	c.dev.mu.Unlock()
	if c.initiator || c.cfg.Startup.Accept == nil {
		return nil, nil
	}
	return c.cfg.Startup.Accept(&mpa.Request{Frame: mpa.Frame{Rev: 2, PrivateData: private}})
}

// pollDevice has the Device polled, if nobody does.
func (c *Conn) pollDevice() {
	if c.dev.polled.CompareAndSwap(false, true) {
		go func() { _ = c.dev.Device.Serve() }() // Closed gets the error
	}
}

// begunDevice is begun.
func (c *Conn) begunDevice() error {
	d := c.dev
	if d.state.Load() == deviceStarting {
		c.startOnce.Do(func() {}) // returns when the one that runs has
	}
	switch d.state.Load() {
	case deviceUp:
		return nil
	case deviceNew:
		return verbs.ErrNoHandshake
	}
	return cmp.Or(d.Err(), c.startErr)
}

// serveDevice is Serve.
func (c *Conn) serveDevice() error {
	if err := c.begunDevice(); err != nil {
		return err
	}
	d := c.dev
	if d.served.Swap(true) {
		return verbs.ErrServing
	}
	if d.polled.CompareAndSwap(false, true) {
		_ = d.Device.Serve()
	}
	<-d.Over()
	return d.Err()
}

// waitDevice is Wait.
func (c *Conn) waitDevice(ctx context.Context, w *Waiter) error {
	if err := c.begunDevice(); err != nil {
		return err
	}
	c.pollDevice()
	return w.WaitAlone(ctx, c.dev.Over(), c.dev.Err)
}

// postDevice is Post, after the check of misuse. It copies wrs: passed to an interface, those of all callers of Post
// would be on the heap, and each call over the engine would allocate.
func (c *Conn) postDevice(wrs []verbs.WR, need verbs.Extensions) error {
	d := c.dev
	if d.state.Load() != deviceUp {
		return cmp.Or(d.Err(), verbs.ErrNoHandshake)
	}
	if need != engine.ExtBase {
		return verbs.ErrNoExtension
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for i := range wrs {
		if d.result.ORD == 0 && engine.Asks(wrs[i].Op) {
			return verbs.ErrNoORD
		}
	}
	d.wrs = append(d.wrs[:0], wrs...)
	err := d.Device.Post(d.wrs)
	clear(d.wrs)
	return err
}

// endDevice is end, and Close before it waits.
func (c *Conn) endDevice(err error, graceful bool) {
	d := c.dev
	unborn := d.state.CompareAndSwap(deviceNew, deviceFailed)
	d.quits.Store(true)
	d.End(err, graceful)
	if unborn {
		c.closeTable()
	}
	if d.state.Load() != deviceUp {
		return
	}
	c.pollDevice() // somebody has to see the end
	d.mu.Lock()
	defer d.mu.Unlock()
	if graceful && d.hurry == nil { // the peer may never take what was posted
		d.hurry = time.AfterFunc(c.cfg.Timeouts.Close, func() { d.End(err, false) })
	}
}

// closeDevice is Close.
func (c *Conn) closeDevice() error {
	first := c.dev.Err()
	c.endDevice(verbs.ErrClosed, true)
	<-c.dev.Over()
	if errors.Is(first, verbs.ErrClosed) {
		return nil
	}
	return first
}

// deviceMessage is DeviceConfig.Message.
func (c *Conn) deviceMessage(m *verbs.Message) {
	if c.dev.quits.Load() {
		return
	}
	c.dev.order++
	m.Order = c.dev.order
	if c.cfg.Handler == nil {
		own := *m
		own.Order, own.Data = 0, append([]byte(nil), m.Data...)
		c.inbox.put(&own, nil)
		return
	}
	if err := c.above(func() { c.cfg.Handler.HandleRecv(c, m) }); err != nil {
		c.endDevice(err, false)
	}
}

// deviceCompleted is DeviceConfig.Completed.
func (c *Conn) deviceCompleted(wr *verbs.WR, err error) {
	if wr.InvalidateSink && err == nil {
		c.table.Revoke(wr.Sink)
	}
	up, ok := wr.Done.(verbs.UpcallCompleter)
	switch {
	case wr.Done == nil:
	case !ok || err != nil:
		wr.Done.Complete(err)
	default:
		if err := c.above(up.CompleteUpcall); err != nil {
			c.endDevice(err, false)
		}
	}
}

// deviceClosed is DeviceConfig.Closed.
func (c *Conn) deviceClosed(err error) {
	d := c.dev
	d.mu.Lock()
	if d.hurry != nil {
		d.hurry.Stop()
	}
	d.mu.Unlock()
	c.cfg.Logger.Debug("connection ends", zap.Error(err))
	c.closeTable()
	c.closed(err)
}

// closeTable revokes every STag at the end of the connection.
func (c *Conn) closeTable() {
	ctx, cancel := context.WithTimeout(context.Background(), terminateTimeout)
	defer cancel()
	if err := c.table.Close(ctx); err != nil {
		c.cfg.Logger.Warn("memory still in use at the end of the connection", zap.Error(err))
	}
}
