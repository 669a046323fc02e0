package rpcrdma

import (
	"fmt"

	"github.com/stag-rdma/stag/chunks"
	"github.com/stag-rdma/stag/credits"
)

// ResponderConfig describes one connection to a [Responder]. Zero fields mean
// the defaults. It is copied.
type ResponderConfig struct {
	Profile Profile // RFC8166
	// Reads, with profile RFC5666, says that the peer can make RDMA Reads and sends
	// RDMA_DONE: replies that fit nowhere else are exposed for it.
	Reads bool
	// MaxExposed and MaxExposedOctets bound the replies exposed at a time, and
	// their memory in octets. If zero, 16 and 4 MiB + 64 KiB.
	MaxExposed       int
	MaxExposedOctets int64
	// ExposeMin is the size in octets from which an item of an exposed reply gets a
	// read chunk of its own. If zero, 1024.
	ExposeMin int
	// Align is the alignment of the peer's receive buffers and AlignMin the size
	// from which a result is aligned, as in [RequesterConfig].
	Align, AlignMin int
	// PreferReplyChunk makes a reply leave by the reply chunk whenever one is
	// offered, as Linux does; if false, inline when it fits.
	PreferReplyChunk bool
	// Credits is the largest grant. If zero, 32.
	Credits uint32
	// SendSize is the reply threshold: the largest Send to the peer, octets,
	// header included. If zero, 1024. See [PrivateData.Inline].
	SendSize int
	// GatherMin is the size from which inline octets at the end of a Send are
	// not copied but left in Reply.Body, octets. If zero, never.
	GatherMin int
	// NoChunks refuses calls with chunks of any kind with ERR_CHUNK (RFC 8167 Section 5.3).
	NoChunks bool
	// Bidirectional: the peer may not look at the credits of an RDMA_ERROR, see
	// [RequesterConfig].
	Bidirectional bool
	// Limits bounds the lists of calls and the size of what is pulled.
	Limits chunks.Limits
	// Binding says which arguments may be reduced. nil: none.
	Binding chunks.Binding
	// RemoteInvalidate permits Reply to name a handle for Send with Invalidate:
	// both sides said R, see [PrivateData.MayInvalidate], or the owner knows
	// that the peer takes it.
	RemoteInvalidate bool
}

func (c *ResponderConfig) setDefaults() {
	if c.Credits == 0 {
		c.Credits = defaultCredits
	}
	orDefault(&c.SendSize, DefaultInline)
	orDefault(&c.MaxExposed, defaultMaxExposed)
	orDefault(&c.ExposeMin, DefaultInline)
	orDefault(&c.AlignMin, defaultAlignMin)
	if c.MaxExposedOctets == 0 {
		c.MaxExposedOctets = chunks.DefaultMaxOctets
	}
	if c.Profile != RFC5666 || !PadsTo(uint32(c.Align)) {
		c.Align = 0
	}
}

// defaultMaxExposed is the default of MaxExposed.
const defaultMaxExposed = 16

// Responder is the answering side of one connection: it judges calls and forms
// replies. It holds no calls; each is an [Inbound] of its owner. See the package
// documentation for the order of calls. Not safe for concurrent use.
type Responder struct {
	cfg     ResponderConfig // defaults filled in
	given   ResponderConfig
	credits credits.Responder
	exposed exposed
	stats   responderStats
}

// responderStats counts since NewResponder.
type responderStats struct {
	Calls      uint64 // calls dispatched
	Dropped    uint64 // Sends dropped, RDMA_DONEs that free nothing among them
	Dones      uint64 // RDMA_DONE received
	Exposed    uint64 // replies exposed for the peer's RDMA Reads
	Padded     uint64 // calls taken and replies sent as RDMA_MSGP
	ErrVers    uint64 // answers ERR_VERS
	ErrChunk   uint64 // answers ERR_CHUNK, replies that do not fit among them
	Garbage    uint64 // answers GARBAGE_ARGS made here
	OverCredit uint64 // Sends for which the peer had no credit
}

// NewResponder returns a machine for a new connection. Before it starts, the
// owner posts the receives that Credits().Need() asks for. A setting out of range
// is an error that wraps [ErrConfig].
func NewResponder(cfg ResponderConfig) (*Responder, error) {
	if err := cfg.check(); err != nil {
		return nil, fmt.Errorf("rpcrdma: %w", err)
	}
	given := cfg
	cfg.setDefaults()
	return &Responder{cfg: cfg, given: given, credits: credits.NewResponder(cfg.Credits)}, nil
}

// Configure changes the configuration for the replies that are formed from now
// on: what the Connection Configuration Protocol has told. Profile, Credits and
// Limits must stay.
func (r *Responder) Configure(change func(cfg *ResponderConfig)) {
	change(&r.given)
	r.cfg = r.given
	r.cfg.setDefaults()
}

// Config returns the configuration in force, defaults filled in.
func (r *Responder) Config() ResponderConfig { return r.cfg }

// Credits returns the grants of this connection, on which the owner reports the
// receives it posts.
func (r *Responder) Credits() *credits.Responder { return &r.credits }

// drop is the end of a Send that gets no answer.
func (r *Responder) drop(in *Inbound, err error) Verdict {
	in.Err = err
	r.credits.Dropped()
	r.stats.Dropped++
	return Drop
}

func (r *Responder) answer(in *Inbound, how refusal, err error) Verdict {
	in.Err, in.refusal = err, how
	return Answer
}

// AppendAnswer appends the Send that refuses the call with verdict Answer: an
// RDMA_ERROR, or an RDMA_MSG with GARBAGE_ARGS and all chunks unused (RFC 8166
// Section 4.5). It carries the current grant. Never longer than SendSize.
func (r *Responder) AppendAnswer(b []byte, in *Inbound) []byte {
	if in.refusal == refuseGarbageArgs {
		if out, ok := r.appendGarbage(b, in); ok {
			r.stats.Garbage++
			return out
		}
		in.refusal = refuseErrChunk // lists too long to be returned
	}
	return r.appendError(b, in)
}

func (r *Responder) appendError(b []byte, in *Inbound) []byte {
	grant := r.grantInError(in.Header.Credit)
	h := Header{XID: in.Header.XID, Vers: in.Header.Vers, Credit: grant, Type: MsgTypeError, Err: ErrChunk}
	if in.refusal == refuseErrVers {
		h.Err, h.Low, h.High = ErrVers, Version, Version
		r.stats.ErrVers++
	} else {
		r.stats.ErrChunk++
	}
	return h.Append(b)
}
