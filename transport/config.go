package transport

import (
	"net"
	"time"

	"github.com/stag-rdma/stag/chunks"
	"github.com/stag-rdma/stag/rdmap"
	"github.com/stag-rdma/stag/rdmap/mpa"
	"github.com/stag-rdma/stag/transport/rpc"
	"github.com/stag-rdma/stag/xdr"
	"go.uber.org/zap"
)

// Defaults of [Config].
const (
	DefaultCredits          = 64
	DefaultInlineSize       = 4096      // of replies
	DefaultInlineCall       = 256 << 10 // of calls
	DefaultMaxPayload       = 1<<20 + 64<<10
	DefaultRequestMemory    = 256 << 20
	DefaultHandshakeTimeout = 10 * time.Second
	DefaultCloseTimeout     = 5 * time.Second
	DefaultPullTimeout      = 30 * time.Second
	DefaultHandlerGrace     = time.Millisecond
	DefaultDoneTimeout      = 30 * time.Second
	DefaultMaxExposed       = 16
	DefaultExposedMemory    = 64 << 20
	DefaultAlign            = 64
	DefaultMaxConns         = 16384
	DefaultDRCEntries       = 16384
	DefaultDRCMemory        = 32 << 20
	DefaultDRCTime          = 5 * time.Minute
)

// Limits of the inline sizes: RFC 8797 Section 4 carries them as 1 KiB to 256 KiB.
const (
	minInline  = 1024
	maxInline  = 256 << 10
	maxCredits = 4096
	maxAlign   = 4096 // of pooled buffers
)

// Config holds the settings of a client, a server or a listener. A nil *Config and zero fields mean the
// defaults. Functions that take a Config copy it; it must not change meanwhile. A value may be negative
// only if the field says what that means; see [Config.Check].
type Config struct {
	// Credits is the number of calls in flight on one connection: the number that a client
	// requests, and the most that a server grants (RFC 8166 Section 3.3). If zero, 64; range 1 to
	// 4096.
	Credits int

	// CreditPool, on servers and listeners, limits the calls in flight on all connections
	// together, and distributes the credits according to load. Credits still limits each
	// connection. If nil, there is one credit for each 40 KiB of RequestMemory, so that calls that wait
	// take an eighth of it: the first connections, 51 by default, are granted Credits from one half of
	// them, and the others share the other half.
	CreditPool *CreditPool

	// InlineSend is the size in octets of the largest Send of this side, and InlineRecv that of
	// its receive buffers, header included (RFC 8797 Section 4). If zero, 256 KiB for calls, that
	// is, InlineSend of a client and InlineRecv of a server, and 4096 for replies; range 1024 to
	// 262144, rounded down to a multiple of 1024. Sends obey the peer's InlineRecv as well.
	//
	// So data of a call that fit a Send are pushed, where a peer that takes less, like Linux, has
	// to pull them: a round trip more. Results are placed in chunks, because the client knows where. A
	// server announces less than InlineRecv, at least 4096, to a connection whose Credits of such calls
	// would be more than an eighth of RequestMemory, less what it has promised to others.
	InlineSend, InlineRecv int

	// Profile says which document the connection follows: [ProfileRFC8166], the zero value, or
	// [ProfileRFC5666]. The two ends need not agree.
	Profile Profile

	// Align, on a server of profile rfc5666, is the alignment in octets of data that arrives
	// inline as RDMA_MSGP, announced by the Connection Configuration Protocol: a power of two from
	// 4 to 4096. If zero, 64; if negative, none is asked for.
	Align int

	// PeerAlign, with profile rfc5666, is the alignment of the peer's receive buffers if it is
	// known other than by the Connection Configuration Protocol. Setting it also says that the
	// peer follows RFC 5666. If zero, unknown. The range is that of Align.
	PeerAlign int

	// NoConfigCall keeps a client of profile rfc5666 from making the call of the Connection
	// Configuration Protocol first (RFC 5666 Section 6). ConfigCred is the credential of that
	// call: it "MUST be protected by an appropriate RPC security flavor" (RFC 5666 Section 11).
	NoConfigCall bool
	ConfigCred   xdr.Auth

	// DoneTimeout is how long a server keeps an exposed reply for the client to read before it
	// closes the connection (RFC 5666 Section 3.8). If zero, 30 s.
	DoneTimeout time.Duration

	// MaxExposed limits the number of replies that are exposed at a time on one connection;
	// together they hold at most four times MaxPayload. Further replies wait. If zero, 16.
	// ExposedMemory limits the octets of exposed and waiting replies of all connections. A reply
	// beyond that is refused with ERR_CHUNK. If zero, 64 MiB.
	MaxExposed    int
	ExposedMemory int64

	// PreferReplyChunk makes a server write a reply into the reply chunk whenever one is
	// offered, as Linux does. If false, a reply that fits goes inline.
	PreferReplyChunk bool

	// BackwardCredits switches on the backward direction (RFC 8167): calls of the server on the
	// connections of its clients. On a server or listener it limits the calls in flight to one
	// client, see rpc.Request.Backward. On a client it is the number of such calls that
	// BackwardHandler serves at once. If zero, there is no backward direction; range 0 to 4096,
	// with profile rfc8166 only.
	BackwardCredits int

	// BackwardHandler, on a client, serves the calls of the backward direction, each in a
	// goroutine, so that it may use the client. Their context ends with the connection.
	BackwardHandler rpc.Handler

	// ImmediateReplies lets Immediate Data (RFC 7306) stand for replies that arrive in another
	// way, on connections to peers that set it too: see [rpc.Response.Immediate].
	ImmediateReplies bool

	// Immediate, on a client with ImmediateReplies, is called when reply n was sent in another
	// way. Once that reply has arrived, pass it to deliver, as an RPC message, from any goroutine;
	// until then its call waits. Deliver borrows the message. Immediate must not block.
	Immediate func(n uint64, deliver func(reply []byte))

	// CRC says whether MPA's CRC32C is used; it is if either side asks for it (RFC 5044 Section 4.4).
	// The zero value, CRCPeer, asks for it as a client, and leaves it to the client as a server.
	CRC rdmap.CRCMode

	// NoRemoteInvalidate, on a client, says in the private data that replies must not come as Send
	// with Invalidate. On a server, it means that the server sends none (RFC 8797 Section 4.1).
	NoRemoteInvalidate bool

	// Binding says which arguments and results are DDP-eligible
	// (RFC 8166 Section 6). If nil, chunks.NFS: versions 3 and 4.
	Binding chunks.Binding

	// AnyCred, on a server, passes every credential and verifier to the handler unchecked. If
	// false, calls that xdr.CallHeader.CheckAuth refuses are answered with AUTH_ERROR.
	AnyCred bool

	// MaxPayload is the size in octets of the largest RPC message, chunks included, that is
	// accepted or sent. If zero, 1 MiB + 64 KiB.
	MaxPayload int

	// RequestMemory limits the octets that all connections of one server or listener hold for the
	// arguments and the results of calls, by RDMA and by record-marked TCP together. Calls beyond it
	// wait, in the order in which they came. A quarter of it, at least MaxPayload, is for connections
	// with no other call in progress, so that slow peers do not stop the others, and a sixteenth for
	// calls that take next to nothing. If zero, 256 MiB; at least MaxPayload, and better twice that.
	RequestMemory int64

	// Fanout, on a listener, is the number of record-marked connections as which each RDMA
	// connection appears, so that a server which handles one call at a time per connection can
	// handle that many calls of a client at once. If zero, 1; range 1 to 256.
	Fanout int

	// Allow reports whether a server or listener serves the client with this address. It is called
	// before anything else, in the goroutine of the connection. Other clients are refused: see
	// [rpc.LimitAllow]. If nil, all are served. See [AllowNets].
	Allow func(client net.Addr) bool

	// MaxConns limits the connections of one server or listener. Further ones are refused. If
	// zero, 16384.
	MaxConns int

	// MaxPulls limits the calls of one server or listener whose chunks are being pulled. Further
	// calls wait, except those that are alone on their connection. If zero, 4096.
	MaxPulls int

	// PerClient limits what one client may use of RequestMemory, ExposedMemory, MaxConns and
	// MaxPulls.
	PerClient ClientLimits

	// Revision, Markers, PeerToPeer and RTR are the settings of the same names in rdmap.Config.
	// They control the start-up of MPA (RFC 5044 Section 7.1, RFC 6581) and its markers. If
	// Revision is 0, [Dial] tries revision 2. If the server closes the connection without an
	// answer, it tries revision 1 on another connection (RFC 6581 Section 10).
	Revision   int
	Markers    bool
	PeerToPeer bool
	RTR        mpa.RTR

	// IRD and ORD are the numbers of RDMA Reads served and issued at a time (RFC 6581 Section 9).
	// If zero, the defaults of rdmap.Config.
	IRD, ORD int

	// MULPDU is the size of the largest ULPDU in octets. If zero, it is derived from the path, or
	// 64,768 if the peer is also stag.
	MULPDU int

	// HandshakeTimeout limits the time for the MPA start-up. If zero, 10 s.
	HandshakeTimeout time.Duration

	// CallTimeout limits the time of every call of a client whose context has no deadline. One
	// tick of the process checks it, so that calls need no timers; it may take up to 100 ms more.
	// If zero, there is no limit.
	CallTimeout time.Duration

	// CloseTimeout limits the time that Close waits for the peer to end the stream. If zero, 5 s.
	CloseTimeout time.Duration

	// PullTimeout is how long a peer that keeps a call waiting may move less than 8 KiB a second
	// before a server closes the connection: by answering RDMA Reads, by sending the rest of a record,
	// by reading replies. While other calls wait for memory, it may move nothing for 2 s. If zero, 30 s.
	PullTimeout time.Duration

	// DRCEntries, DRCMemory and DRCTime limit the duplicate request cache of a server or listener:
	// how many replies it keeps, how many octets they take, and how long it keeps them after the
	// call. Of a period without such calls, at most a quarter of DRCTime counts. One client
	// address may have an eighth of DRCEntries; of the clients there (credentials) those with the
	// most replies lose theirs first. If zero, 16384, 32 MiB and 5
	// minutes. If DRCEntries is negative, there is no cache. [rpc.Handler] says which calls it holds.
	DRCEntries int
	DRCMemory  int64
	DRCTime    time.Duration

	// NonIdempotent names the calls that a listener holds in its duplicate request cache. When
	// such a call comes again over a new connection, it gets the first reply and does not reach
	// the server above. While such a call is in progress, that server does not see its connection
	// end, for at most DRCTime. If nil, the procedures of NFSv3 that change something. A [Server]
	// asks its [rpc.Handler] instead.
	NonIdempotent func(prog, vers, proc uint32) bool

	// HandlerGrace is how long a handler may run in the reading goroutine before the watchdog lets
	// another goroutine read. Finding the first slow handler takes up to 10 ms more. If zero, 1
	// ms; if negative, there is no limit.
	HandlerGrace time.Duration

	// BusyPoll is how long a goroutine that waits for input polls before it sleeps; see
	// [rdmap.Config]. It halves a short round trip, but keeps a processor busy. If zero, it does
	// not poll.
	BusyPoll time.Duration

	// Trace has functions that are called for the steps of each call. If nil, there are none.
	Trace *rpc.Trace

	// Logger receives errors. If nil, nothing is logged; only the panic of a handler is then printed to
	// standard error, with its stack.
	Logger *zap.Logger
}

// fill returns a checked copy of c with the defaults in place.
func (c *Config) fill() (*Config, error) {
	var f Config
	if c != nil {
		f = *c
	}
	setInt(&f.Credits, DefaultCredits)
	setInt(&f.MaxPayload, DefaultMaxPayload)
	setInt(&f.MaxConns, DefaultMaxConns)
	setInt(&f.MaxPulls, DefaultMaxPulls)
	setInt(&f.Fanout, 1)
	if f.RequestMemory == 0 {
		f.RequestMemory = DefaultRequestMemory
	}
	setInt(&f.DRCEntries, DefaultDRCEntries)
	if f.DRCMemory == 0 {
		f.DRCMemory = DefaultDRCMemory
	}
	setDuration(&f.DRCTime, DefaultDRCTime)
	setDuration(&f.HandshakeTimeout, DefaultHandshakeTimeout)
	setDuration(&f.CloseTimeout, DefaultCloseTimeout)
	setDuration(&f.PullTimeout, DefaultPullTimeout)
	setDuration(&f.HandlerGrace, DefaultHandlerGrace)
	setDuration(&f.DoneTimeout, DefaultDoneTimeout)
	setInt(&f.MaxExposed, DefaultMaxExposed)
	setInt(&f.Align, DefaultAlign)
	if f.ExposedMemory == 0 {
		f.ExposedMemory = DefaultExposedMemory
	}
	if f.Binding == nil {
		f.Binding = chunks.NFS
	}
	if f.Logger == nil {
		f.Logger = noLogger
	}
	return &f, f.check()
}

// inline sets the inline sizes that are not set, once it is known which side this is.
func (c *Config) inline(send, recv int) {
	setInt(&c.InlineSend, send)
	setInt(&c.InlineRecv, recv)
	c.InlineSend -= c.InlineSend % minInline
	c.InlineRecv -= c.InlineRecv % minInline
}

func (c *Config) asClient() { c.inline(DefaultInlineCall, DefaultInlineSize) }
func (c *Config) asServer() { c.inline(DefaultInlineSize, DefaultInlineCall) }

func setInt(v *int, def int) {
	if *v == 0 {
		*v = def
	}
}

func setDuration(v *time.Duration, def time.Duration) {
	if *v == 0 {
		*v = def
	}
}
