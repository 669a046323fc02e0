package rdmap

import (
	"time"

	"github.com/stag-rdma/stag/rdmap/mpa"
	"github.com/stag-rdma/stag/rdmap/region"
	"go.uber.org/zap"
)

// CRCMode says what this side wants of the FPDU CRC (RFC 5044 Section 4.4).
type CRCMode uint8

const (
	// CRCOn asks for CRC32C. Either side's wish is enough: the CRC is then
	// generated and checked by both. The default.
	CRCOn CRCMode = iota
	// CRCOff does without, if the peer does not ask for it either. RFC 5044
	// Section 4.4 allows it only on an administrator's explicit setting.
	CRCOff
)

// Defaults of Config.
const (
	DefaultIRD              = 64
	DefaultORD              = 64
	DefaultRecvSize         = 4096
	DefaultRecvs            = 64
	DefaultSendQueue        = 4 << 20
	DefaultRequestTimeout   = 5 * time.Second  // responder waits for the Request
	DefaultReplyTimeout     = 10 * time.Second // initiator waits for the Reply
	DefaultWriteTimeout     = 60 * time.Second
	DefaultCloseTimeout     = 5 * time.Second
	DefaultTerminateTimeout = time.Second
	DefaultStallTimeout     = 30 * time.Second
	DefaultFPDUTimeout      = 60 * time.Second
	DefaultMaxTakeovers     = 64
	// StagMULPDU is the largest ULPDU of MPA (RFC 5044 Section 4.1), used
	// between two stag peers.
	StagMULPDU = 64768
)

// Config holds the settings of one connection. A nil Config and zero fields
// mean the documented defaults; the engine works on a copy, and a Config must
// not be modified after it has been passed.
type Config struct {
	// PrivateData is sent in the initiator's MPA Request. At most 256 octets
	// in all go out, the engine's own words included (RFC 6581 Section 6 permits
	// 512; Linux takes 256). The slice is borrowed until Handshake returns.
	PrivateData []byte

	// Accept decides about a Request at the responder and returns the private
	// data of the Reply. An error rejects the connection (R=1); the private
	// data returned with it is sent all the same. Nil accepts everything.
	Accept func(req *mpa.Request) (privateData []byte, err error)

	// CRC: CRCOn (default) or CRCOff.
	CRC CRCMode

	// Revision of MPA: what an initiator asks for, and the highest that a responder
	// takes. 0 and 2: RFC 6581; 1: RFC 5044 alone, without an exchange of read
	// depths, which both sides then have to know. Who speaks 2 to a peer that knows 1
	// alone is told so by ErrOlderPeer.
	Revision int
	// Markers asks the peer to put markers into what it sends (RFC 5044 Section 4.3).
	// What the peer asks for is always done. Some peers refuse; off by default.
	Markers bool

	// PeerToPeer makes an initiator send a ready-to-receive message before anything
	// else, so that the responder may send first (RFC 6581 Section 9.2). A responder
	// does what the Request says.
	PeerToPeer bool
	// RTR is the set of those messages that an initiator can send (0: Write, and
	// Read unless ORD is none) or a responder takes (0: all).
	RTR mpa.RTR

	// IRD is the number of requests of the peer (Reads) held at once; ORD that
	// of own requests in flight. 0: 64. Negative: none. Both at most 16382, and
	// cut down to what the peer offers (RFC 6581 Section 9).
	IRD, ORD int

	// MULPDU is the largest ULPDU sent, octets, 128 to 64768. 0: derived from
	// the path's EMSS towards unknown peers, 64768 towards another stag peer.
	MULPDU int

	// Plain leaves the stag capability block out of the private data: this side
	// then looks like, and treats the peer as, any other iWARP implementation.
	Plain bool

	// NoNudge leaves out what an initiator does when it has sent something, and the peer,
	// not another stag, is silent: after 200 ms and after a second it sends an RDMA Write
	// of no octets, which has no effect. Some peers (Linux's siw) miss a first message
	// that comes at once after their Reply until another follows.
	NoNudge bool

	// Extensions are the operations beyond RFC 5040 that this side permits. 0: none.
	// What is in force says ConnectionState.
	Extensions Extensions

	// RecvSize is the largest Send accepted, octets. 0: 4096.
	RecvSize int
	// Recvs is the number of receives posted before the connection starts.
	// 0: 64; negative: none.
	Recvs int
	// RecvQueue is where the connection takes its receives from; it may be shared. Nil:
	// Recvs of its own. With it Recvs means nothing.
	RecvQueue *RecvQueue
	// RecvQuota bounds the receives of RecvQueue that messages of this connection have
	// taken and PostRecv has not given back; beyond it there is none for the connection.
	// 0: no bound.
	RecvQuota int
	// Pool is where the octets of Sends are kept that cannot be lent from the
	// reader's staging. Nil: one pool of the process (DefaultPool).
	Pool *Pool

	// Domain is the protection domain of the connection's region table. Nil: one of
	// its own.
	Domain *region.Domain

	// Handler gets the upcalls. Nil: messages queue for Recv.
	Handler Handler

	// SendQueue bounds the octets copied by Post and not yet written; beyond it
	// Post fails with ErrSendQueueFull. 0: 4 MiB.
	SendQueue int

	// HandshakeTimeout bounds the MPA startup. 0: 10 s at the initiator, 5 s at
	// the responder.
	HandshakeTimeout time.Duration
	// WriteTimeout bounds how long a write may make no progress before the
	// connection is given up. 0: 60 s.
	WriteTimeout time.Duration
	// StallTimeout bounds how long a Send may wait for memory of the Pool before the
	// connection ends with the Terminate for "no buffer". When half of it is over, Sends
	// that began before the wait and have not ended give their memory up: their
	// connections end with ErrUnfinishedSend. While nobody waits for memory a Send may
	// take as long as it likes. 0: 30 s.
	StallTimeout time.Duration
	// FPDUTimeout bounds how long a peer may send nothing inside an FPDU; then the
	// connection ends with ErrHalfFPDU. Between two FPDUs it may be silent for as long as
	// it likes. 0: 60 s; negative: no bound.
	FPDUTimeout time.Duration
	// CloseTimeout bounds how long Close waits for queued output. 0: 5 s.
	CloseTimeout time.Duration

	// HandlerLimit is how long an upcall may hold the reading role of a
	// connection in Serve before the watchdog gives the role to a new goroutine.
	// 0 or negative: no watchdog. The watchdog looks every 10 ms, and every millisecond
	// at upcalls that it has found under way and for a while after one that overstayed;
	// so it may take 10 ms longer to find the first. With a
	// watchdog the goroutine in Serve also carries out, under the same limit, the peer's
	// requests that may take long, such as a Flush to a disk; without, another one does.
	HandlerLimit time.Duration
	// BusyPoll is how long a goroutine that waits for input, in Wait or in Serve, looks
	// for it again and again before it goes to sleep: half the latency of a short round
	// trip, for a processor that is busy meanwhile. It looks only behind a wait that was
	// over within that time, and fewer than GOMAXPROCS goroutines of the process do so at
	// once. It is for one caller at a time and a processor to spare on both sides: where
	// several callers share a connection and there are no more processors than peers, it
	// takes away what they need. TCP on Linux only. 0: not at all, the default.
	BusyPoll time.Duration
	// MaxTakeovers bounds the upcalls that have been relieved of the role and
	// still run. 0: 64.
	MaxTakeovers int

	// BufferedInput holds octets already read from the conn. It is borrowed
	// until Handshake returns.
	BufferedInput []byte

	// Logger gets one line per connection event; nil discards.
	Logger *zap.Logger
}

// withDefaults returns a copy of cfg with every zero field filled in and every
// other one brought into range.
func (cfg *Config) withDefaults() Config {
	var c Config
	if cfg != nil {
		c = *cfg
	}
	c.Extensions = c.Extensions.normal()
	c.IRD = depth(c.IRD, DefaultIRD)
	c.ORD = depth(c.ORD, DefaultORD)
	if c.Revision != 1 {
		c.Revision = 2
	}
	if c.MULPDU != 0 {
		c.MULPDU = min(max(c.MULPDU, 128), StagMULPDU)
	}
	orDefault(&c.RecvSize, DefaultRecvSize)
	orDefault(&c.Recvs, DefaultRecvs)
	c.Recvs = max(c.Recvs, 0)
	orDefault(&c.SendQueue, DefaultSendQueue)
	orDefault(&c.WriteTimeout, DefaultWriteTimeout)
	orDefault(&c.StallTimeout, DefaultStallTimeout)
	orDefault(&c.FPDUTimeout, DefaultFPDUTimeout)
	orDefault(&c.CloseTimeout, DefaultCloseTimeout)
	orDefault(&c.MaxTakeovers, DefaultMaxTakeovers)
	if c.Pool == nil {
		c.Pool = DefaultPool
	}
	if c.Domain == nil {
		c.Domain = region.NewDomain()
	}
	if c.Logger == nil {
		c.Logger = zap.NewNop()
	}
	return c
}

// maxDepth is the largest IRD and ORD: 14 bits, the last value being reserved
// for "not negotiated" (RFC 6581 Section 9.1).
const maxDepth = 0x3ffe

func depth(v, def int) int {
	switch {
	case v == 0:
		return def
	case v < 0:
		return 0
	}
	return min(v, maxDepth)
}

func orDefault[T int | time.Duration](p *T, def T) {
	if *p == 0 {
		*p = def
	}
}
