package replies

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stag-rdma/stag/internal/accept"
	"github.com/stag-rdma/stag/internal/peeraddr"
	"github.com/stag-rdma/stag/internal/setting"
	"github.com/stag-rdma/stag/internal/shared"
	"github.com/stag-rdma/stag/rdmap"
	"github.com/stag-rdma/stag/rdmap/verbs"
	"github.com/stag-rdma/stag/transport"
	"github.com/stag-rdma/stag/transport/commitlog"
	"github.com/stag-rdma/stag/transport/internal/rendezvous"
	"github.com/stag-rdma/stag/transport/rpc"
	"github.com/stag-rdma/stag/xdr"
	"go.uber.org/zap"
)

// Defaults of Pusher.
const (
	defaultMaxQueued  = 1 << 20
	defaultMaxClients = 1024
)

// A client may take defaultSilence to tell where its log is, once connected, and is remembered for defaultGrace when it
// has no connection.
const (
	defaultSilence = 10 * time.Second
	defaultGrace   = time.Minute
)

// ErrClosed is returned by Serve after Close.
var ErrClosed = errors.New("replies: closed")

// Pusher is a [rpc.Handler] that passes calls to another Handler, and pushes its replies
// into the logs that clients have offered. Set the fields, then serve. The fields must not change
// afterwards. A setting out of range is an error of Serve that wraps rpc.ErrConfig; then no log is accepted.
type Pusher struct {
	// Handler serves the calls. It must be set.
	Handler rpc.Handler
	// Addr is the address for log connections, host:port, that clients are told. Without host,
	// clients use the host of the RPC server. The application passes its listener to Serve.
	Addr string
	// TLS is that of the log connections, below MPA; the zero value: off.
	TLS transport.TLS
	// Choose says which replies are pushed. If nil, the replies to calls that must not run twice.
	Choose func(prog, vers, proc uint32) bool
	// MaxQueued limits the octets in flight to one log. Replies beyond it are sent without a record.
	// When the log is full, replies wait for room; if there has been none for a second, they are sent
	// without a record too. If zero, 1 MiB.
	MaxQueued int
	// MaxClients limits the logs, of which one host may have an eighth. It also limits the log
	// connections, of which one host may have an eighth that have not shown a token yet. If zero, 1024.
	MaxClients int
	// Logger gets a line per log and per failure. If nil, nothing is logged.
	Logger *zap.Logger

	silence, grace time.Duration // tests make them shorter

	once   sync.Once
	cfgErr error
	log    *zap.Logger

	maxQueued, maxClients int

	side rendezvous.Acceptor[*client] // log connections

	mu      shared.Mutex
	clients map[key]*client
	bound   map[string]*binding // by the address of an RPC connection
	closed  bool
}

var _ rpc.Handler = (*Pusher)(nil)

func (p *Pusher) init() error {
	p.once.Do(func() {
		err := setting.Check(setting.Count("MaxQueued", p.MaxQueued), setting.Count("MaxClients", p.MaxClients))
		if err != nil {
			p.cfgErr = fmt.Errorf("replies: %w", err)
		}
		p.maxQueued, p.maxClients = cmp.Or(p.MaxQueued, defaultMaxQueued), cmp.Or(p.MaxClients, defaultMaxClients)
		p.silence, p.grace = cmp.Or(p.silence, defaultSilence), cmp.Or(p.grace, defaultGrace)
		if p.log = p.Logger; p.log == nil {
			p.log = zap.NewNop()
		}
		p.log = accept.Sampled(p.log)
		p.clients, p.bound = make(map[key]*client), make(map[string]*binding)
		p.side.MaxConns, p.side.TLS, p.side.Closed, p.side.Logger = p.maxClients, p.TLS, ErrClosed, p.log
	})
	return p.cfgErr
}

// Describe asks Handler about its programs. Chosen calls are not lazy, because the digest of a call covers all its
// arguments.
func (p *Pusher) Describe(req *rpc.Request) (t rpc.Traits) {
	if req.Prog == Program {
		return t
	}
	t = rpc.Describe(p.Handler, req)
	t.Lazy = t.Lazy && !p.chosen(req, t)
	return t
}

// Ready asks Handler about its calls.
func (p *Pusher) Ready(ctx context.Context, req *rpc.Request) bool {
	return req.Prog != Program && rpc.Ready(ctx, p.Handler, req)
}

// chosen reports whether the reply to a call with these traits is pushed.
func (p *Pusher) chosen(req *rpc.Request, t rpc.Traits) bool {
	if p.Choose != nil {
		return p.Choose(req.Prog, req.Vers, req.Proc)
	}
	return t.Once
}

// ServeRPC implements [rpc.Handler].
func (p *Pusher) ServeRPC(ctx context.Context, req *rpc.Request, resp *rpc.Response) {
	err := p.init()
	switch {
	case req.Prog != Program:
	case err != nil:
		resp.Stat = xdr.SystemErr
		return
	default:
		p.serve(ctx, req, resp)
		return
	}
	b := p.bindingOf(req)
	if b == nil || req.Cred.Flavor == xdr.RPCSECGSS || !p.chosen(req, rpc.Describe(p.Handler, req)) {
		p.Handler.ServeRPC(ctx, req, resp)
		return
	}
	digest := Digest(req.Prog, req.Vers, req.Proc, req.Args) // before a handler can change them
	p.Handler.ServeRPC(ctx, req, resp)
	b.c.push(ctx, req, resp, digest)
}

// bindingOf returns the binding of a connection, nil if there is none.
func (p *Pusher) bindingOf(req *rpc.Request) *binding {
	if req.Network != "rdma" || req.RemoteAddr == nil {
		return nil // a connection of another kind may have the same address
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.bound[req.RemoteAddr.String()]
}

// binding names the client whose log takes the replies on a connection.
type binding struct {
	c    *client
	stop func() bool // the call of unbind
}

func (p *Pusher) serve(ctx context.Context, req *rpc.Request, resp *rpc.Response) {
	d := xdr.NewDecoder(req.Args)
	switch {
	case req.Vers != Version:
		resp.ProgMismatch(Version, Version)
	case req.Proc == procNull:
		if d.End() != nil {
			resp.Stat = xdr.GarbageArgs
		}
	case req.Proc == procOffer:
		var a offerArgs
		if a.parse(&d); d.End() != nil {
			resp.Stat = xdr.GarbageArgs
			return
		}
		res := p.offer(ctx, req, &a)
		resp.Results = res.append(resp.Results)
	default:
		resp.Stat = xdr.ProcUnavail
	}
}

// offer binds a connection to the log of a client.
func (p *Pusher) offer(ctx context.Context, req *rpc.Request, a *offerArgs) offerRes {
	if req.Network != "rdma" || req.RemoteAddr == nil {
		return offerRes{Status: statusBusy} // we would not notice the end of the connection
	}
	addr, host := req.RemoteAddr.String(), peeraddr.Host(req.RemoteAddr)
	p.mu.Lock()
	defer p.mu.Unlock()
	c := p.clients[a.Client]
	switch {
	case p.closed || c != nil && c.host != host:
		return offerRes{Status: statusBusy}
	case c == nil && (len(p.clients) >= p.maxClients || p.of(host) >= max(p.maxClients/hostShare, 1)):
		return offerRes{Status: statusBusy}
	case c == nil:
		c = newClient(p, a, host)
		p.clients[a.Client] = c
	}
	p.bind(ctx, addr, &binding{c: c})
	if c.isLive() && !a.Connect {
		return offerRes{Status: statusOK}
	}
	p.side.Withdraw(c.token)
	at := p.side.Offer(c, p.Addr)
	c.token = at.Token
	return offerRes{Status: statusConnect, At: at, Life: c.life}
}

// One host may have one part in hostShare of MaxClients.
const hostShare = 8

// of counts the clients of a host. The caller holds p.mu.
func (p *Pusher) of(host string) (n int) {
	share := peeraddr.ShareOf(host)
	for _, c := range p.clients {
		if peeraddr.ShareOf(c.host) == share {
			n++
		}
	}
	return n
}

// bind binds a connection, which ends with ctx. The caller holds p.mu.
func (p *Pusher) bind(ctx context.Context, addr string, b *binding) {
	old := p.bound[addr]
	if old != nil && old.c == b.c {
		return
	}
	if old != nil {
		old.stop() // else each offer on the connection would leave one behind
		p.unuse(old.c)
	}
	p.bound[addr] = b
	p.use(b.c)
	b.stop = context.AfterFunc(ctx, func() { p.unbind(addr, b) })
}

// unbind is called when an RPC connection has ended.
func (p *Pusher) unbind(addr string, b *binding) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.bound[addr] == b {
		delete(p.bound, addr)
		p.unuse(b.c)
	}
}

// use adds a connection of c. The caller holds p.mu.
func (p *Pusher) use(c *client) {
	c.uses++
	c.stopGrace()
}

// unuse removes a connection of c. The caller holds p.mu.
func (p *Pusher) unuse(c *client) {
	if c.uses--; c.uses == 0 && !p.closed {
		c.grace = time.AfterFunc(p.grace, func() { p.forget(c) })
	}
}

// forget forgets a client without connections.
func (p *Pusher) forget(c *client) {
	var gone bool
	p.mu.With(func() {
		if gone = c.uses == 0 && p.clients[c.key] == c; gone {
			delete(p.clients, c.key)
			p.side.Withdraw(c.token)
		}
	})
	if gone {
		c.close()
	}
}

// RecheckTLS is that of transport.Server, for the log connections.
func (p *Pusher) RecheckTLS() { p.side.RecheckTLS() }

// Close ends the log connections and forgets the clients. From then on, replies are sent without records.
func (p *Pusher) Close() error {
	_ = p.init() // what it makes is closed below
	var cs []*client
	p.mu.With(func() {
		p.closed = true
		for k, c := range p.clients {
			cs = append(cs, c)
			c.stopGrace()
			delete(p.clients, k)
		}
		clear(p.bound)
	})
	p.side.Close()
	for _, c := range cs {
		c.close()
	}
	return nil
}

// client is a client whose log takes replies.
type client struct {
	p     *Pusher
	key   key
	host  string
	epoch uint32
	life  uint64 // random

	// Guarded by Pusher.mu.
	uses  int         // connections
	conn  *rdmap.Conn // the last one for appends, perhaps not live yet
	token rendezvous.Token
	grace *time.Timer

	prod *commitlog.Producer

	mu      shared.Mutex
	live    *rdmap.Conn // the connection for appends; nil: none
	limit   int         // of a record
	next    uint64      // number of the next record; 0 before the first connection
	queued  int         // octets in flight
	full    time.Time   // since when there has been no room; zero: there is room
	pending []sentRecord
	waiting bool // a goroutine waits for pending
	closed  bool
}

// sentRecord is a record in flight.
type sentRecord struct {
	e *commitlog.Pending
	n int
}

func newClient(p *Pusher, a *offerArgs, host string) *client {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails, by its documentation
	return &client{
		p: p, key: a.Client, host: host, epoch: a.Epoch, life: binary.BigEndian.Uint64(b[:]),
		prod: commitlog.NewProducer(nil),
	}
}

// stopGrace stops the timer that would forget c. The caller holds Pusher.mu.
func (c *client) stopGrace() {
	if c.grace != nil {
		c.grace.Stop()
	}
}

func (c *client) isLive() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.live != nil
}

// patience is how long there must be no room in a log before replies are sent without records.
// lookAgain is how often those that wait for room look.
const (
	patience  = time.Second
	lookAgain = time.Millisecond
)

// push pushes a reply, names its record in it and returns the record's number, or 0 if there is no
// room. It waits for room as long as some is likely to come, because the client may get replies
// faster than it can make durable which ones it is Done with.
func (c *client) push(ctx context.Context, req *rpc.Request, resp *rpc.Response, digest [sha256.Size]byte) {
	for c.tryPush(req, resp, digest) {
		select {
		case <-time.After(lookAgain):
		case <-ctx.Done():
			return
		}
	}
}

// tryPush reports whether room for the record is likely to come, and none was pushed until then.
func (c *client) tryPush(req *rpc.Request, resp *rpc.Response, digest [sha256.Size]byte) (wait bool) {
	if resp.Verf.Flavor != xdr.AuthNone || len(resp.Verf.Body) > 0 {
		return false // the handler has set its own verifier
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.live == nil {
		return false
	}
	resp.Verf = name{c.life, c.next}.verf()
	n := recordSize(resp)
	if n > c.limit || c.queued+n > c.p.maxQueued {
		resp.Verf = xdr.Auth{}
		return false
	}
	record := appendRecord(make([]byte, 0, n), c.epoch, digest, req, resp)
	e, err := c.prod.TryBegin(record) // the receiver of this reply may be the one that must be Done with others
	if err != nil {
		resp.Verf = xdr.Auth{}
		return errors.Is(err, commitlog.ErrFull) && c.hopes()
	}
	c.full = time.Time{}
	c.next++
	c.queued += n
	c.pending = append(c.pending, sentRecord{e, n})
	if !c.waiting {
		c.waiting = true
		go c.wait()
	}
	return false
}

// hopes is called when there is no room, and reports whether some is likely to come. The caller
// holds c.mu.
func (c *client) hopes() bool {
	if c.full.IsZero() {
		c.full = time.Now()
	}
	return time.Since(c.full) < patience
}

// wait counts records that have arrived.
func (c *client) wait() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for len(c.pending) > 0 {
		r := c.pending[0]
		c.mu.Without(func() { _, _ = r.e.Wait(context.Background()) }) // ends with close
		c.pending = c.pending[1:]
		c.queued -= r.n
	}
	c.waiting = false
}

// attach begins to append over conn. It returns false if that is impossible, because the log does not
// continue where the records named so far end.
func (c *client) attach(conn *rdmap.Conn, a *commitlog.Answer) bool {
	if c.prod.Open(conn, a) != nil {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.next == 0 {
		c.next = a.NextSeq
	}
	c.limit = commitlog.PayloadLimit(a.Capacity)
	c.live = conn
	return !c.closed
}

// detach is called when conn has ended.
func (c *client) detach(conn *rdmap.Conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.live == conn {
		c.live = nil
	}
}

func (c *client) close() {
	c.mu.With(func() { c.closed, c.live = true, nil })
	c.prod.Close()
}

// Errors of connections to logs.
var (
	errAnswer = errors.New("replies: the log is not the one that was appended to")
	errNewer  = errors.New("replies: the client has connected its log again")
	errSilent = errors.New("replies: the client has not told where its log is")
)

// Serve takes l and accepts log connections from it. It returns ErrClosed, or the first error of
// Accept. While the process is out of file descriptors, it waits instead.
func (p *Pusher) Serve(l net.Listener) error {
	if err := p.init(); err != nil {
		_ = l.Close() // it has accepted nobody
		return err
	}
	return p.side.Serve(l, p.serveConn)
}

// upcalls handles the messages on the connection of a log: first the answer, which opens the
// session, then messages for its producer.
type upcalls struct {
	prod   atomic.Pointer[commitlog.Producer]
	answer chan *commitlog.Answer // one slot
}

// HandleRecv implements rdmap.Handler.
func (u *upcalls) HandleRecv(c *rdmap.Conn, m *verbs.Message) {
	if p := u.prod.Load(); p != nil {
		p.HandleRecv(c, m)
		return
	}
	c.PostRecv(1)
	if a, err := commitlog.ParseAnswer(m.Data); err == nil {
		select {
		case u.answer <- a:
		default:
		}
	}
}

// HandleClose implements rdmap.Handler.
func (u *upcalls) HandleClose(c *rdmap.Conn, err error) {
	if p := u.prod.Load(); p != nil {
		p.HandleClose(c, err)
	}
}

// serveConn serves a log connection until it ends, and returns why it ended.
func (p *Pusher) serveConn(nc net.Conn) error {
	u := &upcalls{answer: make(chan *commitlog.Answer, 1)}
	cfg := commitlog.Config(nil)
	cfg.Handler = u
	return p.side.ServeConn(nc, cfg, func(c *rdmap.Conn, cl *client) error { return p.append(c, cl, u) })
}

// append appends the records of cl over c, after its answer.
func (p *Pusher) append(c *rdmap.Conn, cl *client, u *upcalls) error {
	var old *rdmap.Conn
	p.mu.With(func() {
		old, cl.conn = cl.conn, c
		p.use(cl)
	})
	if old != nil {
		old.Abort(errNewer) // a client has one, or it could take the places of others
	}
	defer func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if cl.conn == c {
			cl.conn = nil
		}
		p.unuse(cl)
	}()
	served := make(chan error, 1)
	go func() { served <- c.Serve() }()
	timeout := time.NewTimer(p.silence)
	defer timeout.Stop()
	select {
	case a := <-u.answer:
		u.prod.Store(cl.prod)
		if !cl.attach(c, a) {
			c.Abort(errAnswer)
			<-served
			p.forgetNow(cl)
			return errAnswer
		}
	case <-timeout.C:
		c.Abort(errSilent)
		return <-served
	case err := <-served:
		return err
	}
	defer cl.detach(c)
	if err := c.Post([]verbs.WR{{Op: verbs.OpSend}}); err != nil { // from now on the client may make calls
		c.Abort(err)
	}
	return <-served
}

// forgetNow forgets a client whose records cannot continue. If it offers again, it is a new client.
func (p *Pusher) forgetNow(c *client) {
	p.mu.With(func() {
		if p.clients[c.key] == c {
			delete(p.clients, c.key)
		}
		for addr, b := range p.bound {
			if b.c == c {
				delete(p.bound, addr)
				b.stop()
				c.uses--
			}
		}
	})
	c.close()
}
