package rdmap

import (
	"cmp"
	"fmt"
	"math"
	"time"

	"github.com/stag-rdma/stag/internal/setting"
	"github.com/stag-rdma/stag/rdmap/internal/engine"
	"github.com/stag-rdma/stag/rdmap/mpa"
	"github.com/stag-rdma/stag/rdmap/region"
	"github.com/stag-rdma/stag/rdmap/verbs"
	"go.uber.org/zap"
)

// CRCMode says whether this side wants the FPDU CRC (RFC 5044 Section 4.4).
type CRCMode uint8

const (
	// CRCPeer, the default, asks for CRC32C as an initiator, and as a responder does as the Request
	// says. If either side asks, both generate and check the CRC. So two stags use it. That a
	// responder omits it for a peer that does without is a deviation from Section 4.4, which leaves
	// that to the administrator of each end.
	CRCPeer CRCMode = iota
	// CRCOn asks for CRC32C in both roles.
	CRCOn
	// CRCOff asks for it in neither, so that it is omitted if the peer does not ask for it either.
	CRCOff
)

// String returns "peer", "on" or "off".
func (m CRCMode) String() string {
	switch m {
	case CRCOn:
		return "on"
	case CRCOff:
		return "off"
	case CRCPeer:
	}
	return "peer"
}

// Defaults of Config.
const (
	defaultIRD            = 64
	defaultORD            = 64
	defaultRecvSize       = 4096 // octets
	defaultRecvs          = 64
	DefaultSendQueue      = 4 << 20          // octets
	defaultRequestTimeout = 5 * time.Second  // responder waits for the Request
	DefaultReplyTimeout   = 10 * time.Second // initiator waits for the Reply
	defaultWriteTimeout   = 60 * time.Second
	defaultMemoryTimeout  = 30 * time.Second
	defaultFPDUTimeout    = 60 * time.Second
	defaultCloseTimeout   = 5 * time.Second
	defaultMaxHandlers    = 64
	// StagMULPDU is the largest ULPDU of MPA, octets (RFC 5044 Section 4.1). Two stag peers use it.
	StagMULPDU = engine.StagMULPDU
)

// Config holds the settings of one connection. A nil Config and zero fields mean the documented
// defaults. A setting out of range is an error of Handshake; see [Config.Check]. A value may be
// negative only if the field says what that means. The engine works on a copy. A Config must not be
// modified after it has been passed.
type Config struct {
	Startup  Startup
	Receives Receives
	Timeouts Timeouts
	Reading  Reading

	// Domain is the protection domain of the connection's region table. Nil: a new domain.
	Domain *region.Domain

	// Handler gets the upcalls. Nil: messages are queued for Recv.
	Handler Handler

	// SendQueue bounds the octets that Post has copied and that are not yet written. Beyond it Post
	// fails with ErrSendQueueFull. 0: 4 MiB.
	SendQueue int

	// PartialFPDU, if set, is called with n > 0 when the peer has begun an FPDU and has sent hardly anything for
	// a tick or two, while the connection holds n octets of memory for it, and again when that has changed; and
	// with 0 when the FPDU is complete or the connection has ended. One call at a time is made. It must not block.
	PartialFPDU func(n int)

	// Logger gets one line per connection event; nil discards.
	Logger *zap.Logger
}

// Startup has the settings of the MPA startup, and what the two ends agree on in it.
type Startup struct {
	// PrivateData is sent in the initiator's MPA Request. At most 256 octets are sent, including
	// those that the engine adds (RFC 6581 Section 6 permits 512; Linux takes 256). The slice is
	// borrowed until Handshake returns.
	PrivateData []byte

	// Accept decides whether the responder accepts a Request, and returns the private data of the
	// Reply. An error rejects the connection (R=1); the private data returned with it is sent all
	// the same. req is lent until Accept returns, and privateData is borrowed until Handshake
	// returns. Nil accepts everything.
	Accept func(req *mpa.Request) (privateData []byte, err error)

	// CRC: CRCPeer (default), CRCOn or CRCOff.
	CRC CRCMode

	// Revision is the MPA revision that an initiator asks for, and the highest that a responder
	// accepts. 0 and 2 mean RFC 6581. 1 means RFC 5044 alone: the read depths are not exchanged, so
	// each side has to know those of the other. If an initiator with revision 2 meets a peer that
	// seems to know only revision 1, Handshake returns ErrOlderPeer.
	Revision int
	// Markers asks the peer to send markers (RFC 5044 Section 4.3). Some peers refuse, so it is
	// off by default. This side always sends the markers that the peer asks for.
	Markers bool

	// PeerToPeer makes an initiator send a ready-to-receive message before anything else, so that
	// the responder may be the first to send data (RFC 6581 Section 9.2). A responder does as the
	// Request says.
	PeerToPeer bool
	// RTR is the set of ready-to-receive messages that an initiator can send (0: Write, and Read
	// unless ORD is none) or that a responder accepts (0: all).
	RTR mpa.RTR

	// IRD is how many of the peer's requests (such as Reads) this side holds at a time, and ORD how
	// many of its own may be in flight. 0: 64; negative: none; at most 16382. Both are reduced to what
	// the peer offers (RFC 6581 Section 9).
	IRD, ORD int

	// MULPDU is the largest ULPDU sent, 128 to 64768 octets. 0: the largest that a stag peer
	// accepts, or, with any other peer, what fits the EMSS of the path.
	MULPDU int

	// Plain leaves the stag capability block out of the private data. This side then looks like
	// any other iWARP implementation, and treats the peer as one.
	Plain bool

	// Extensions are the operations beyond RFC 5040 that this side permits. 0: none.
	// ConnectionState.Extensions are those in force.
	Extensions verbs.Extensions

	// BufferedInput holds octets already read from the net.Conn. It is borrowed until Handshake
	// returns.
	BufferedInput []byte

	// Timeout bounds all of it. 0: 10 s at the initiator, 5 s at the responder.
	Timeout time.Duration
}

// Receives has the settings for messages that consume a receive.
type Receives struct {
	// Size is the largest Send accepted, octets. 0: 4096.
	Size int
	// Count is the number of receives posted before the connection starts. 0: 64; negative: none.
	Count int
	// Pool provides memory for the octets of Sends that cannot be lent from the reader's staging
	// buffer. Nil: DefaultPool, which the process shares.
	Pool *Pool
}

// Timeouts has limits of time after the startup.
type Timeouts struct {
	// Write bounds how long a write may make no progress before the connection is ended. 0: 60 s.
	Write time.Duration
	// Memory bounds how long a Send may wait for memory of the Pool before the connection
	// ends with the Terminate for "no buffer". After half of it, Sends that began before the wait
	// and have not ended lose their memory: their connections end with ErrUnfinishedSend. While
	// nobody waits for memory, a Send may take any time. 0: 30 s.
	Memory time.Duration
	// FPDU bounds how long a peer may send nothing inside an FPDU; then the connection ends
	// with ErrPartialFPDU. Between two FPDUs it may be silent for any time. 0: 60 s; negative: no
	// bound.
	FPDU time.Duration
	// Close bounds how long Close waits for queued output. 0: 5 s.
	Close time.Duration
}

// Reading says how a connection is read.
type Reading struct {
	// HandlerLimit is how long an upcall may hold the reading role of a connection in Serve before
	// the watchdog gives the role to a new goroutine. 0 or negative: no watchdog. The watchdog
	// looks every 10 ms. It looks every millisecond while it knows of a running upcall, and for a
	// while after one that exceeded the limit. So it may take 10 ms longer to find the first. With
	// a watchdog, the goroutine in Serve also carries out, under the same limit, the peer's
	// requests that may take long, such as a Flush to a disk. Without it, another goroutine does.
	HandlerLimit time.Duration
	// MaxHandlers bounds the upcalls that still run after losing the reading role. 0: 64.
	MaxHandlers int
}

// maxDepth is the largest IRD and ORD. They have 14 bits, and the last value is reserved for "not
// negotiated" (RFC 6581 Section 9.1).
const maxDepth = 0x3ffe

// Check returns an error that names the first setting out of range, as Handshake does. It wraps
// verbs.ErrConfig. A nil cfg is valid.
func (cfg *Config) Check() error {
	if cfg == nil {
		return nil
	}
	err := cmp.Or(cfg.Startup.Check(), setting.Check(
		setting.Int("Receives.Size", cfg.Receives.Size, 1, math.MaxInt32),
		setting.Int("Receives.Count", max(cfg.Receives.Count, 0), 1, math.MaxInt32),
		setting.Time("Timeouts.Write", cfg.Timeouts.Write),
		setting.Time("Timeouts.Memory", cfg.Timeouts.Memory),
		setting.Time("Timeouts.Close", cfg.Timeouts.Close),
		setting.Count("SendQueue", cfg.SendQueue),
	), cfg.Reading.Check())
	if err != nil {
		return fmt.Errorf("rdmap: %w", err)
	}
	return nil
}

// Check is Config.Check for these settings.
func (s *Startup) Check() error {
	return setting.Check(
		setting.Int("Startup.CRC", int(s.CRC), 0, int(CRCOff)),
		setting.Int("Startup.Revision", s.Revision, 1, 2),
		setting.Int("Startup.IRD", max(s.IRD, 0), 1, maxDepth),
		setting.Int("Startup.ORD", max(s.ORD, 0), 1, maxDepth),
		setting.Int("Startup.MULPDU", s.MULPDU, 128, StagMULPDU),
		setting.Time("Startup.Timeout", s.Timeout),
	)
}

// Check is Config.Check for these settings.
func (r *Reading) Check() error {
	return setting.Check(
		setting.Int("Reading.MaxHandlers", r.MaxHandlers, 1, math.MaxInt32),
	)
}

// withDefaults returns a copy of cfg, which Check has found valid, with every zero field filled in,
// and 0 where a negative value means none.
func (cfg *Config) withDefaults() Config {
	var c Config
	if cfg != nil {
		c = *cfg
	}
	c.Startup.Extensions = engine.Normal(c.Startup.Extensions)
	setDefault(&c.Startup.IRD, defaultIRD)
	setDefault(&c.Startup.ORD, defaultORD)
	setDefault(&c.Startup.Revision, 2)
	setDefault(&c.Receives.Size, defaultRecvSize)
	setDefault(&c.Receives.Count, defaultRecvs)
	setDefault(&c.Receives.Pool, DefaultPool)
	setDefault(&c.Timeouts.Write, defaultWriteTimeout)
	setDefault(&c.Timeouts.Memory, defaultMemoryTimeout)
	setDefault(&c.Timeouts.FPDU, defaultFPDUTimeout)
	setDefault(&c.Timeouts.Close, defaultCloseTimeout)
	setDefault(&c.Reading.MaxHandlers, defaultMaxHandlers)
	setDefault(&c.SendQueue, DefaultSendQueue)
	for _, p := range [...]*int{&c.Startup.IRD, &c.Startup.ORD, &c.Receives.Count} {
		*p = max(*p, 0)
	}
	if c.Domain == nil {
		c.Domain = region.NewDomain()
	}
	if c.Logger == nil {
		c.Logger = zap.NewNop()
	}
	return c
}

func (s *Startup) timeout(initiator bool) time.Duration {
	switch {
	case s.Timeout > 0:
		return s.Timeout
	case initiator:
		return DefaultReplyTimeout
	}
	return defaultRequestTimeout
}

func (s *Startup) engine(initiator bool) engine.StartupConfig {
	return engine.StartupConfig{
		Initiator: initiator, PrivateData: s.PrivateData, Plain: s.Plain,
		Extensions: s.Extensions, MULPDU: s.MULPDU, Accept: s.Accept,
		MPA: mpa.Config{
			Rev: uint8(s.Revision), MaxRev: uint8(s.Revision),
			NoCRC:   s.CRC == CRCOff || s.CRC == CRCPeer && !initiator,
			Markers: true, WantMarkers: s.Markers, // RFC 5044 Section 4.3: a sender MUST be able to
			IRD: uint16(s.IRD), ORD: uint16(s.ORD),
			PeerToPeer: s.PeerToPeer, RTR: s.RTR,
		},
	}
}

func setDefault[T comparable](p *T, def T) {
	var zero T
	if *p == zero {
		*p = def
	}
}
