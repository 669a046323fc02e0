package transport

import (
	"cmp"
	"fmt"
	"net"
	"time"

	"github.com/stag-rdma/stag/chunks"
	"github.com/stag-rdma/stag/internal/setting"
	"github.com/stag-rdma/stag/rdmap"
	"github.com/stag-rdma/stag/rpcrdma"
	"github.com/stag-rdma/stag/transport/internal/admit"
	"github.com/stag-rdma/stag/transport/rpc"
	"github.com/stag-rdma/stag/xdr"
	"go.uber.org/zap"
)

// Defaults of [Config] that other programs compute with, in octets.
const (
	DefaultInlineSize = 4096 // of replies
	DefaultMaxPayload = 1<<20 + 64<<10
	DefaultMemory     = 256 << 20 // of Limits
)

// Config holds the settings of a client, a server or a listener. A nil *Config and zero fields mean the
// defaults. Functions that take a Config copy it; it must not change meanwhile. A setting out of range is an
// error; see [Config.Check]. A value may be negative only if the field says what that means.
type Config struct {
	// Credits is the number of calls in flight on one connection: the number that a client
	// requests, and the most that a server grants (RFC 8166 Section 3.3). If zero, 64; range 1 to
	// 4096.
	//
	// All connections of a server or listener together have one credit for each 40 KiB of Limits.Memory, so that
	// calls that wait take an eighth of it. Half of them go to the first connections, 51 by default, which are
	// always granted Credits. All others share the other half according to load: a client that fills its window
	// gets more, an equal part when there are not enough for all, and one that does not gets fewer. Each has one
	// credit that does not count, so there may be more clients than credits. A client keeps its grant until its
	// next call is answered: only a reply can lower it (RFC 8166 Section 3.3.1).
	Credits int

	// InlineSend is the size in octets of the largest Send of this side, and InlineRecv that of
	// its receive buffers, header included (RFC 8797 Section 4). If zero, 256 KiB for calls, that
	// is, InlineSend of a client and InlineRecv of a server, and 4096 for replies; range 1024 to
	// 262144, rounded down to a multiple of 1024. Sends obey the peer's InlineRecv as well.
	//
	// So data of a call that fit a Send are pushed, where a peer that takes less, like Linux, has
	// to pull them: a round trip more. Results are placed in chunks, because the client knows where. A
	// server announces less than InlineRecv, at least 4096, to a connection whose Credits of such calls
	// would be more than an eighth of Limits.Memory, less what it has promised to others. Over a card
	// ([rdmap.Device]) all are 4096 if zero.
	InlineSend, InlineRecv int

	// MaxPayload is the size in octets of the largest RPC message, chunks included, that is
	// accepted or sent. If zero, 1 MiB + 64 KiB; range 1024 to 1 GiB.
	MaxPayload int

	// Binding says which arguments and results are DDP-eligible
	// (RFC 8166 Section 6). If nil, chunks.NFS: versions 3 and 4.
	Binding chunks.Binding

	// NoRemoteInvalidate, on a client, says in the private data that replies must not come as Send
	// with Invalidate. On a server, it means that the server sends none (RFC 8797 Section 4.1).
	NoRemoteInvalidate bool

	// PreferReplyChunk makes a server write a reply into the reply chunk whenever one is
	// offered, as Linux does. If false, a reply that fits goes inline.
	PreferReplyChunk bool

	// AnyCred, on a server, passes every credential and verifier to the handler unchecked. If
	// false, calls that xdr.CallHeader.CheckAuth refuses are answered with AUTH_ERROR.
	AnyCred bool

	// Fanout, on a listener, is the number of record-marked connections as which each RDMA
	// connection appears, so that a server which handles one call at a time per connection can
	// handle that many calls of a client at once. If zero, 1; range 1 to 256.
	Fanout int

	// RFC5666, if not nil, makes the connection follow RFC 5666. If nil, it follows RFC 8166, and never
	// sends what that document forbids. The two ends need not agree.
	RFC5666 *RFC5666

	// Startup has the settings for the start-up of a connection. PrivateData, Accept, Extensions and
	// BufferedInput must be left alone: this package sets them. If Revision is 0, [Dial] tries revision 2. If
	// the server closes the connection without an answer, it tries revision 1 on another connection
	// (RFC 6581 Section 10). If Timeout is zero, 10 s at both ends.
	Startup Startup

	// Reading says how connections are read. If HandlerLimit is zero, 1 ms; if MaxHandlers is zero, Credits.
	Reading Reading

	TLS        TLS
	GSS        GSS
	Limits     Limits
	Duplicates Duplicates
	Backward   Backward
	Timeouts   Timeouts

	// Trace has functions that are called for the steps of each call. If nil, there are none.
	Trace *rpc.Trace

	// Logger receives errors. If nil, nothing is logged; only the panic of a handler is then printed to
	// standard error, with its stack.
	Logger *zap.Logger

	cardRecv int // InlineRecv of a server's connections over cards; see fit
}

// Limits has the limits of a server or listener.
type Limits struct {
	// Allow reports whether the client with this address is served. It is called before anything else, in
	// the goroutine of the connection. Other clients are refused: see [rpc.LimitAllow]. If nil, all are
	// served. See [AllowNets].
	Allow func(client net.Addr) bool

	// Conns is the number of connections. Further ones are refused. Those beyond 2048 take 16 KiB each of
	// Memory, at most half of it. If zero, as many as that allows: 10240 with the default Memory; with TLS half as
	// many beyond 2048.
	Conns int

	// Memory is the number of octets that all connections hold for the arguments and the results of calls,
	// by RDMA and by record-marked TCP together. Calls beyond it wait, and clients take turns. A
	// quarter of it, at least MaxPayload, is for connections with no other call in progress, so that slow
	// peers do not stop the others, and a sixteenth for calls that take at most 16 KiB. If zero, 256 MiB; at
	// least MaxPayload, and better twice that.
	Memory int64

	// Pulls is the number of calls whose chunks are being pulled. Further calls wait, except those that are
	// alone on their connection. If zero, 4096.
	Pulls int

	// PerClient limits what one client may use of Conns, Memory, Pulls and RFC5666.ExposedMemory.
	PerClient ClientLimits
}

// Duplicates has the settings of the duplicate request cache of a server or listener. [rpc.Handler] says
// which calls it holds.
type Duplicates struct {
	// Entries is the number of replies that it keeps. One client address may have an eighth; of the clients
	// there (credentials) those with the most replies lose theirs first. If zero, 16384; if negative, there
	// is no cache.
	Entries int

	// Memory is the number of octets that they take. If zero, 32 MiB.
	Memory int64

	// Time is how long a reply is kept after the call. A pause without such calls counts for at most a
	// quarter of it. If zero, 5 min.
	Time time.Duration

	// NonIdempotent names the calls that a listener holds. When such a call comes again over a new
	// connection, it gets the first reply and does not reach the server above. While such a call is in
	// progress, that server does not see its connection end, for at most Time. If nil, the procedures of
	// NFSv3 that change something. A [Server] asks its [rpc.Handler] instead.
	NonIdempotent func(prog, vers, proc uint32) bool

	// Owner names the user who is known to be at the other end of the connection from an address, "" if none is. No
	// call is a duplicate of another user's. It must be fast. If nil, nobody is known.
	Owner func(client net.Addr) string
}

// Backward switches on the backward direction (RFC 8167): calls of the server on the connections of its
// clients. It does not go with RFC5666.
type Backward struct {
	// Credits, on a server or listener, limits the calls in flight to one client, see
	// rpc.Request.Backward. On a client it is the number of such calls that Handler serves at once. If zero,
	// there is no backward direction; at most 4096.
	Credits int

	// Handler, on a client, serves the calls, each in a goroutine, so that it may use the client. Their
	// context ends with the connection.
	Handler rpc.Handler
}

// Timeouts has limits of time.
type Timeouts struct {
	// Call limits every call of a client whose context has no deadline. One tick of the process checks it,
	// so that calls need no timers; it may take up to 100 ms more. If zero, there is no limit.
	Call time.Duration

	// Close limits how long Close waits for the peer to end the stream. If zero, 5 s.
	Close time.Duration

	// Pull is how long a peer that keeps a call waiting may move less than 8 KiB a second before a server
	// closes the connection: by answering RDMA Reads, by sending the rest of a record, by reading replies.
	// While other calls wait for memory, those are closed first that have moved less for longest, at least
	// for 1 s. If zero, 30 s.
	Pull time.Duration
}

// RFC5666 has the settings of connections that follow that document: RDMA_MSGP, replies by read list with
// RDMA_DONE, the Connection Configuration Protocol, and chunks for programs without an upper-layer binding.
type RFC5666 struct {
	// Align, on a server, is the alignment in octets of data that arrives inline as RDMA_MSGP, announced by
	// the Connection Configuration Protocol: a power of two from 4 to 4096. If zero, 64; if negative, none
	// is asked for.
	Align int

	// PeerAlign is the alignment of the peer's receive buffers if it is known other than by the Connection
	// Configuration Protocol. Setting it also says that the peer follows RFC 5666. If zero, unknown; range
	// as Align.
	PeerAlign int

	// NoConfigCall keeps a client from making the call of the Connection Configuration Protocol first (RFC
	// 5666 Section 6). ConfigCred is the credential of that call: it "MUST be protected by an appropriate
	// RPC security flavor" (RFC 5666 Section 11).
	NoConfigCall bool
	ConfigCred   xdr.Auth

	// DoneTimeout is how long a server keeps an exposed reply for the client to read before it
	// closes the connection (RFC 5666 Section 3.8). If zero, 30 s.
	DoneTimeout time.Duration

	// MaxExposed limits the number of replies that are exposed at a time on one connection;
	// together they hold at most four times MaxPayload. Further replies wait. If zero, 16; at most 4096.
	MaxExposed int

	// ExposedMemory limits the octets of exposed and waiting replies of all connections. A reply
	// beyond that is refused with ERR_CHUNK. If zero, 64 MiB.
	ExposedMemory int64
}

// noLogger is the Logger of a Config that has none.
var noLogger = zap.NewNop()

// Limits of the inline sizes: RFC 8797 Section 4 carries them as 1 KiB to 256 KiB.
const (
	minInline = 1024
	maxInline = 256 << 10
)

// fill returns a checked copy of c with the defaults in place.
func (c *Config) fill() (*Config, error) {
	var f Config
	if c != nil {
		f = *c
	}
	if err := f.check(); err != nil {
		return nil, err
	}
	setDefault(&f.Credits, 64)
	setDefault(&f.MaxPayload, DefaultMaxPayload)
	setDefault(&f.Fanout, 1)
	setDefault(&f.Startup.Timeout, 10*time.Second)
	setDefault(&f.Limits.Memory, DefaultMemory)
	beyond := int(min(f.Limits.Memory/2/admit.ConnCost, maxConns))
	if f.TLS.Config != nil {
		beyond /= 2 // an idle one takes 32 KiB, not 16
	}
	setDefault(&f.Limits.Conns, admit.FreeConns+beyond)
	setDefault(&f.Limits.Pulls, 4096)
	setDefault(&f.Duplicates.Entries, 16384)
	setDefault(&f.Duplicates.Memory, 32<<20)
	setDefault(&f.Duplicates.Time, 5*time.Minute)
	setDefault(&f.Timeouts.Close, 5*time.Second)
	setDefault(&f.Timeouts.Pull, 30*time.Second)
	setDefault(&f.Reading.HandlerLimit, time.Millisecond)
	if f.RFC5666 != nil {
		p := *f.RFC5666
		setDefault(&p.Align, 64)
		setDefault(&p.DoneTimeout, 30*time.Second)
		setDefault(&p.MaxExposed, 16)
		setDefault(&p.ExposedMemory, 64<<20)
		f.RFC5666 = &p
	}
	if f.Binding == nil {
		f.Binding = chunks.NFS
	}
	if f.Logger == nil {
		f.Logger = noLogger
	}
	return &f, f.checkMemory()
}

// inline sets the inline sizes that are not set, once it is known which side this is.
func (c *Config) inline(send, recv int) {
	setDefault(&c.InlineSend, send)
	setDefault(&c.InlineRecv, recv)
	c.InlineSend -= c.InlineSend % minInline
	c.InlineRecv -= c.InlineRecv % minInline
}

func (c *Config) asClient() { c.inline(maxInline, DefaultInlineSize) }
func (c *Config) asServer() {
	c.cardRecv = cmp.Or(c.InlineRecv, DefaultInlineSize)
	c.inline(DefaultInlineSize, maxInline)
}

// fit makes c, which is of one connection, fit what carries it. On a card only small messages go inline unless the user
// says otherwise: each receive is registered memory, all the time, and others move without a copy. The server is told
// that it may invalidate our memory only if the card can have that done to it.
func (c *Config) fit(conn net.Conn) {
	if d, ok := conn.(rdmap.Device); ok {
		c.NoRemoteInvalidate = c.NoRemoteInvalidate || !d.Caps().Windows
		c.inline(DefaultInlineSize, DefaultInlineSize)
	}
	c.asClient() // only the sizes of Sends differ between the sides
}

func setDefault[T comparable](v *T, def T) {
	var zero T
	if *v == zero {
		*v = def
	}
}

const (
	maxCredits = 4096
	maxAlign   = 4096 // of pooled buffers
	maxConns   = 1 << 30
)

// Check returns an error that names the first setting that is out of range or contradicts another
// one, as [Dial], [NewListener] and [Server.Serve] do. The error wraps [rpc.ErrConfig]. A nil c is
// valid.
func (c *Config) Check() error {
	_, err := c.fill()
	return err
}

// check refuses impossible settings. Those that are not set are 0.
func (c *Config) check() error {
	err := cmp.Or(setting.Check(
		setting.Int("Credits", c.Credits, 1, maxCredits),
		setting.Int("InlineSend", c.InlineSend, minInline, maxInline),
		setting.Int("InlineRecv", c.InlineRecv, minInline, maxInline),
		setting.Int("MaxPayload", c.MaxPayload, minInline, 1<<30),
		setting.Int("Fanout", c.Fanout, 1, 256),
		setting.Int("Limits.Conns", c.Limits.Conns, 1, maxConns),
		setting.Count("Limits.Memory", c.Limits.Memory),
		setting.Int("Limits.Pulls", c.Limits.Pulls, 1, 1<<30),
		setting.Count("Duplicates.Memory", c.Duplicates.Memory),
		setting.Time("Duplicates.Time", c.Duplicates.Time),
		setting.Int("Backward.Credits", c.Backward.Credits, 1, maxCredits),
		setting.Time("Timeouts.Call", c.Timeouts.Call),
		setting.Time("Timeouts.Close", c.Timeouts.Close),
		setting.Time("Timeouts.Pull", c.Timeouts.Pull),
	), c.Startup.Check(), c.Reading.Check(), c.checkOwn(), c.checkGSS())
	if err == nil && c.RFC5666 != nil {
		err = c.RFC5666.check()
		if err == nil && c.Backward.Credits > 0 {
			err = setting.Error("Backward.Credits with RFC5666, which has no backward direction")
		}
	}
	return ofTransport(err)
}

// checkOwn refuses what this package sets by itself.
func (c *Config) checkOwn() error {
	if s := &c.Startup; s.PrivateData != nil || s.Accept != nil || s.Extensions != 0 || s.BufferedInput != nil {
		return setting.Error("Startup.PrivateData, Accept, Extensions and BufferedInput are set by this package, leave them alone")
	}
	return nil
}

func (p *RFC5666) check() error {
	for _, a := range [...]int{p.Align, p.PeerAlign} {
		if a > 0 && (a > maxAlign || !rpcrdma.PadsTo(uint32(a))) {
			return setting.Error("an alignment of %d, want a power of two from 4 to %d", a, maxAlign)
		}
	}
	return setting.Check(
		setting.Time("RFC5666.DoneTimeout", p.DoneTimeout),
		setting.Int("RFC5666.MaxExposed", p.MaxExposed, 1, maxCredits),
		setting.Count("RFC5666.ExposedMemory", p.ExposedMemory),
	)
}

// checkMemory refuses limits that stop every large call.
func (c *Config) checkMemory() (err error) {
	if c.Limits.Memory < int64(c.MaxPayload) {
		err = setting.Error("Limits.Memory is %d, less than one MaxPayload of %d", c.Limits.Memory, c.MaxPayload)
	}
	if n := c.Limits.PerClient.Memory; n > 0 && n < int64(c.MaxPayload) {
		err = setting.Error("Limits.PerClient.Memory is %d, less than one MaxPayload of %d", n, c.MaxPayload)
	}
	return ofTransport(err)
}

// given refuses what is nil where the user has to bring one.
func given(what string, v any) error {
	if setting.IsNil(v) {
		return ofTransport(setting.Error("the %s is nil", what))
	}
	return nil
}

func ofTransport(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("transport: %w", err)
}

// rfc5666 returns the settings for that document, the zero value if the connection follows RFC 8166.
func (c *Config) rfc5666() (p RFC5666) {
	if c.RFC5666 != nil {
		p = *c.RFC5666
	}
	return p
}

// privateData returns what this side announces at connection time (RFC 8797 Section 4).
func (c *Config) privateData() rpcrdma.PrivateData {
	return rpcrdma.PrivateData{
		RemoteInvalidate: !c.NoRemoteInvalidate,
		SendSize:         c.InlineSend, RecvSize: c.InlineRecv,
	}
}

// engine returns the settings of the underlying connection.
func (c *Config) engine(recvs int) *rdmap.Config {
	ec := &rdmap.Config{
		Startup:   c.Startup,
		Receives:  rdmap.Receives{Size: c.InlineRecv, Count: recvs},
		Timeouts:  rdmap.Timeouts{Close: c.Timeouts.Close},
		Reading:   c.Reading,
		SendQueue: max(rdmap.DefaultSendQueue, c.Credits*(c.InlineSend+16<<10)),
		Logger:    c.Logger,
	}
	setDefault(&ec.Reading.MaxHandlers, c.Credits)
	return ec
}

type (
	// Startup has the settings for the start-up of a connection: MPA, CRC, read depths, sizes of FPDUs.
	Startup = rdmap.Startup
	// Reading says who reads a connection, and for how long a handler may keep others from it.
	Reading = rdmap.Reading
	// CRCMode says whether this side wants the FPDU CRC (RFC 5044 Section 4.4).
	CRCMode = rdmap.CRCMode
)

// Values of Startup.CRC.
const (
	CRCPeer = rdmap.CRCPeer // a client asks for it, a server does as its client asks
	CRCOn   = rdmap.CRCOn   // use it; one side that asks for it is enough
	CRCOff  = rdmap.CRCOff  // omit it, unless the peer asks for it
)
