package rdmap

import (
	"context"
	"net"

	"github.com/stag-rdma/stag/internal/peeraddr"
	"github.com/stag-rdma/stag/rdmap/internal/buf"
	"github.com/stag-rdma/stag/rdmap/internal/drive"
	"github.com/stag-rdma/stag/rdmap/region"
	"github.com/stag-rdma/stag/rdmap/verbs"
)

// Conn is one RDMAP stream over one byte-stream connection. All methods are
// safe for concurrent use.
type Conn struct {
	drv     *drive.Driver
	nc      net.Conn
	table   *region.Table
	invalid error // what Config.Check found
	handler Handler
	idle    IdleHandler // the handler, if it is one
	inbox   inbox       // without a handler
	spare   spareWaiters
}

// Client returns a Conn that will send the MPA Request on nc. It takes ownership of nc. A nil cfg
// means the defaults. Nothing is sent before Handshake, which also returns what is wrong with cfg.
func Client(nc net.Conn, cfg *Config) *Conn { return newConn(nc, cfg, true) }

// Server returns a Conn that will answer an MPA Request on nc. It takes ownership of nc. A nil cfg
// means the defaults.
func Server(nc net.Conn, cfg *Config) *Conn { return newConn(nc, cfg, false) }

func newConn(nc net.Conn, cfg *Config, initiator bool) *Conn {
	c := &Conn{nc: nc}
	if c.invalid = cfg.Check(); c.invalid != nil {
		cfg = &Config{Logger: cfg.Logger} // for a connection that Handshake ends
	}
	f := cfg.withDefaults()
	c.handler = f.Handler
	c.idle, _ = f.Handler.(IdleHandler)
	c.table = f.Domain.NewTable()
	if who := peeraddr.Share(nc.RemoteAddr()); !peeraddr.Many(who) { // else it is told apart by its connection alone
		c.table.SetPrincipal(who)
	}
	var up drive.Upcalls = (*upcalls)(c)
	if c.handler == nil {
		up = &c.inbox
	}
	c.drv = drive.New(nc, f.driver(c.table, initiator), up)
	c.inbox.drv, c.inbox.pool = c.drv, f.Receives.Pool.mem
	return c
}

// upcalls is a Conn as its driver sees it if there is a Handler.
type upcalls Conn

// Message implements drive.Upcalls.
func (u *upcalls) Message(m *verbs.Message, _ buf.Mem) { u.handler.HandleRecv((*Conn)(u), m) }

// Idle implements drive.Upcalls.
func (u *upcalls) Idle() {
	if u.idle != nil {
		u.idle.HandleIdle((*Conn)(u))
	}
}

// Closed implements drive.Upcalls.
func (u *upcalls) Closed(err error) { u.handler.HandleClose((*Conn)(u), err) }

// Handshake runs the MPA startup (RFC 5044 Section 7.1, RFC 6581). It must succeed before
// anything is posted. It runs once; later calls return the first result. An error closes the
// connection: ErrConfig if a setting is out of range; *RejectError if the peer refused; *ConnError if
// the stream failed, the peer's frame was malformed (it then wraps *mpa.FormatError) or the time was
// over. If it wraps ErrOlderPeer, another attempt may succeed.
func (c *Conn) Handshake(ctx context.Context) error { return c.drv.Handshake(ctx, c.invalid) }

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
	p := c.drv.Params()
	if p == nil {
		return ConnectionState{}
	}
	return ConnectionState{
		HandshakeComplete: true, Initiator: p.Initiator, CRC: p.CRC, Revision: int(p.Rev), IRD: p.IRD, ORD: c.drv.ORD(),
		SendMarkers: p.SendMarkers, RecvMarkers: p.RecvMarkers, PeerToPeer: p.PeerToPeer,
		StagPeer: p.Stag, Extensions: p.Extensions, MULPDU: p.MULPDU,
	}
}

// PeerPrivateData returns the upper layer's private data from the peer's startup frame, without
// what the engines have added. The slice belongs to the Conn and must not be changed.
func (c *Conn) PeerPrivateData() []byte {
	if p := c.drv.Params(); p != nil {
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
func (c *Conn) LimitORD(n int) { c.drv.LimitORD(n) }

// LimitRecv lowers Receives.Size to n for a peer that has said that it sends no more (RFC 8797 Section 4).
// It never raises it. Call it in Startup.Accept.
func (c *Conn) LimitRecv(n int) { c.drv.LimitRecv(n) }

// PostRecv posts n more receives, so that the peer may send n more messages. Call it before the
// peer learns that it may send them.
func (c *Conn) PostRecv(n int) { c.drv.PostRecv(n) }

// Post submits work requests: all of them, adjacent and in order, or none. Outside upcalls it
// flushes, or leaves that to a goroutine that is already flushing. While an upcall runs, the flush
// follows when everything that was read has been handled. Post does not wait for the peer to read
// (on a net.Conn that is not TCP, the flush may). Errors: misuse (ErrBadWR, ErrTooLong, ErrNoORD,
// ErrNoExtension, ErrSendQueueFull, ErrNoHandshake), or the connection's first fatal error. After an
// error no Done of wrs is called. wrs is borrowed until Post returns; for the payloads see WR.
func (c *Conn) Post(wrs []verbs.WR) error { return c.drv.Post(wrs) }

// FlushPosted, in an upcall, writes what upcalls have posted so far, without waiting for the end of the input
// that is being handled. An upcall that has computed for a while calls it before others follow, so that
// the peer works meanwhile. FlushPosted does not wait; what the socket does not take follows later.
func (c *Conn) FlushPosted() { c.drv.FlushPosted() }

// Wait returns w's error when w is complete, or ctx's error when ctx ends. If both are so, w's error
// wins. While it waits, the goroutine may hold the reading role and run upcalls. If the connection
// ends and w is not complete, Wait returns the connection's error. While another goroutine runs
// Handshake, Wait first waits for that, even if ctx ends; before Handshake it returns ErrNoHandshake.
func (c *Conn) Wait(ctx context.Context, w *Waiter) error { return c.drv.Wait(ctx, &w.w) }

// Serve gives the reading role to the calling goroutine until the connection ends, and returns the
// reason for the end: a *ConnError with io.EOF means that the peer closed the connection. If an
// upcall hands the role off, or the watchdog takes it, another goroutine continues to read. In any
// case Serve returns at the end of the connection. Errors before that: ErrNoHandshake, ErrServing.
func (c *Conn) Serve() error { return c.drv.Serve() }

// HandOff passes the reading role of the running upcall to a new goroutine, so that the rest of the
// upcall may block. It may be called only in HandleRecv and CompleteUpcall, by the goroutine that
// runs them; m and m.Data stay lent until HandleRecv returns. It reports whether the upcall may now
// block: false means that Reading.MaxHandlers upcalls already do.
//
// Later messages are then handled concurrently with this one. HandOff flushes what the upcall has
// posted.
func (c *Conn) HandOff() bool { return c.drv.HandOff() }

// Done is closed when the connection is over and the net.Conn closed.
func (c *Conn) Done() <-chan struct{} { return c.drv.Done() }

// Err returns the first fatal error, nil while the connection lives.
func (c *Conn) Err() error { return c.drv.Err() }

// Close sends the queued output, closes the stream gracefully, and returns the first fatal error
// of the connection before that, or nil. It waits at most Timeouts.Close for the output, and
// one second for the peer to close too. Work requests with an outstanding response fail with
// ErrClosed. Close must not be called from an upcall; Abort may. Close is idempotent.
func (c *Conn) Close() error { return c.drv.Close() }

// Abort ends the connection at once with err as its first fatal error; nil stands for ErrClosed.
// Queued output is dropped, and no Terminate is sent. Abort may be called anywhere and does not
// wait; see Done.
func (c *Conn) Abort(err error) {
	if err == nil {
		err = verbs.ErrClosed
	}
	c.drv.End(err, false)
}

// Terminate sends a Terminate with code and no headers, and ends the connection with a LocalError
// that holds code and err, which may be nil. It is for an upper layer that cannot go on.
// TermCode{} is RDMAP's local catastrophic error (RFC 5040 Section 4.8). Terminate may be called
// anywhere and does not wait.
func (c *Conn) Terminate(code verbs.TermCode, err error) {
	c.drv.End(&verbs.LocalError{Code: code, Err: err}, true)
}

// Waiter is a Completer that Conn.Wait can wait for. The zero value is ready after Reset. A Waiter
// serves one wait at a time, and is meant to be reused: only its first Reset allocates.
//
// If Wait returned early because its context ended, the Waiter may still be completed later. Do not
// call Reset before that has happened or can no longer happen.
type Waiter struct{ w drive.Waiter }

// Reset makes w ready for one more completion.
func (w *Waiter) Reset() { w.w.Reset() }

// Complete implements Completer. It may be called from any goroutine, once per
// Reset.
func (w *Waiter) Complete(err error) { w.w.Complete(err) }

// Done reports whether w is complete.
func (w *Waiter) Done() bool { return w.w.Done() }

// Err returns the error with which w was completed. It is valid once Done returns true.
func (w *Waiter) Err() error { return w.w.Err() }
