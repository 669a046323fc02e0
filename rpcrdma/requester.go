package rpcrdma

import (
	"fmt"

	"github.com/stag-rdma/stag/chunks"
	"github.com/stag-rdma/stag/credits"
)

// RequesterConfig describes one connection to a [Requester]. Zero fields mean
// the defaults. It is copied.
type RequesterConfig struct {
	Profile Profile // RFC8166
	// Reads, with profile RFC5666, says that this side can make RDMA Reads, so
	// that replies with a read list are accepted.
	Reads bool
	// MaxRead bounds a reply that is read, in octets. If zero, Limits.MaxOctets.
	MaxRead int
	// Align is the alignment of the peer's receive buffers, in octets: arguments
	// that stay inline are sent aligned (RFC 5666 Section 3.9). If zero, or with
	// profile RFC8166, never; see [PadsTo].
	Align int
	// AlignMin is the size from which an argument is aligned, octets. If zero, 512.
	AlignMin int
	// Credits is how many calls may be outstanding at most, and what every call
	// asks for. If zero, 32.
	Credits uint32
	// SendSize is the call threshold: the largest Send to the peer, octets,
	// header included. If zero, 1024. See [PrivateData.Inline].
	SendSize int
	// RecvSize is the reply threshold: the largest Send from the peer. If zero,
	// 1024.
	RecvSize int
	// ReduceMin is the size from which an argument is reduced though it would
	// fit inline, octets. If zero, half of SendSize.
	ReduceMin int
	// SinkMin is the same for a result with a sink. If zero, half of RecvSize.
	SinkMin int
	// GatherMin is the size from which inline octets at the end of a Send are
	// not copied but left in a second part, octets. If zero, never.
	GatherMin int
	// NoChunks keeps every message inline: Plan refuses calls that are too long with
	// [ErrInline] (RFC 8167 Section 5.3).
	NoChunks bool
	// Bidirectional: the connection has both directions, so the credits of an
	// RDMA_ERROR, whose direction nothing tells, are not looked at (RFC 8167 Section 4.2).
	Bidirectional bool
	// Limits bounds the lists of replies.
	Limits chunks.Limits
	// Binding finds the eligible result in replies. nil: results are taken as
	// the peer's chunks say.
	Binding chunks.Binding
}

// defaultCredits is the default of RequesterConfig.Credits and
// ResponderConfig.Credits.
const defaultCredits = 32

func orDefault(v *int, def int) {
	if *v == 0 {
		*v = def
	}
}

func (c *RequesterConfig) setDefaults() {
	if c.Credits == 0 {
		c.Credits = defaultCredits
	}
	orDefault(&c.SendSize, DefaultInline)
	orDefault(&c.RecvSize, DefaultInline)
	orDefault(&c.ReduceMin, c.SendSize/2)
	orDefault(&c.SinkMin, c.RecvSize/2)
	orDefault(&c.AlignMin, defaultAlignMin)
	if c.Profile != RFC5666 || !PadsTo(uint32(c.Align)) {
		c.Align = 0
	}
}

// defaultAlignMin is the default of AlignMin: below it padding costs more than a copy.
const defaultAlignMin = 512

// Requester is the calling side of one connection: the XIDs outstanding, the
// credit window, the form of calls and the judgement of replies. See the package
// documentation for the order of calls. Not safe for concurrent use.
type Requester struct {
	cfg    RequesterConfig // defaults filled in
	given  RequesterConfig
	window credits.Requester
	table  []*Call  // by XID, chained
	hdr    Header   // scratch of Receive
	due    []uint32 // XIDs of replies that were read: each gets an RDMA_DONE
	paid   int      // of due, those whose credit is taken
	stats  requesterStats
}

// requesterStats counts since NewRequester.
type requesterStats struct {
	Calls   uint64 // Begin that were not undone by Abort
	Replies uint64 // calls answered, Failed among them
	Failed  uint64 // calls answered with Result.Err
	Dropped uint64 // Sends that answered nothing
	Reads   uint64 // replies with a read list
	Dones   uint64 // RDMA_DONE sent
	Padded  uint64 // calls sent and replies taken as RDMA_MSGP
}

// maxBuckets bounds the table; chains take what is beyond.
const maxBuckets = 4096

// NewRequester returns a machine for a new connection: one credit until the
// first reply (RFC 8166 Section 3.3.3). A setting out of range is an
// error that wraps [ErrConfig].
func NewRequester(cfg RequesterConfig) (*Requester, error) {
	if err := cfg.check(); err != nil {
		return nil, fmt.Errorf("rpcrdma: %w", err)
	}
	given := cfg
	cfg.setDefaults()
	n := 16
	for n < maxBuckets && n < int(min(cfg.Credits, maxBuckets)) {
		n *= 2
	}
	r := &Requester{cfg: cfg, given: given, window: credits.NewRequester(cfg.Credits), table: make([]*Call, n)}
	r.window.KeepDone(cfg.Profile == RFC5666)
	return r, nil
}

// Configure changes the configuration for the calls that are planned from now
// on: what the Connection Configuration Protocol has told. Profile, Credits and
// Limits must stay.
func (r *Requester) Configure(change func(cfg *RequesterConfig)) {
	change(&r.given)
	r.cfg = r.given
	r.cfg.setDefaults()
}

// Config returns the configuration in force, defaults filled in.
func (r *Requester) Config() RequesterConfig { return r.cfg }

// Padded returns how many calls were sent, and replies taken, as RDMA_MSGP.
func (r *Requester) Padded() uint64 { return r.stats.Padded }

// Available returns how many calls may begin now.
func (r *Requester) Available() int { return r.window.Available() }

// Window returns how many calls may be outstanding now: the grant in force.
func (r *Requester) Window() int { return r.window.Window() }

// InFlight returns how many calls are outstanding, cancelled ones included.
func (r *Requester) InFlight() int { return r.window.InFlight() }

func (r *Requester) bucket(xid uint32) **Call { return &r.table[xid&uint32(len(r.table)-1)] }

// Lookup returns the outstanding call with this XID, or nil.
func (r *Requester) Lookup(xid uint32) *Call {
	c := *r.bucket(xid)
	for c != nil && c.XID != xid {
		c = c.next
	}
	return c
}

// Begin takes a credit for c and enters its XID. Errors, after which nothing
// has changed: [ErrNoCredit], [ErrXIDInUse]. The machine holds c until Receive
// returns it, Abort or Drain.
func (r *Requester) Begin(c *Call) error {
	if c.active || r.Lookup(c.XID) != nil {
		return ErrXIDInUse
	}
	if !r.window.Take() {
		return ErrNoCredit
	}
	p := r.bucket(c.XID)
	c.next, *p, c.active = *p, c, true
	r.stats.Calls++
	return nil
}

// Abort undoes Begin: for a call of which nothing was sent. It does nothing to a
// call that is not outstanding.
func (r *Requester) Abort(c *Call) {
	if r.remove(c) {
		r.window.Release()
		r.stats.Calls--
	}
}

// Cancel says that nobody waits for c any more and reports whether it is still
// outstanding. If so its credit, XID and memory stay taken until Receive returns
// it or the connection ends. It is not if a reply to it was dropped: what the
// credit stood for, a receive of the peer, is free again.
//
// Choice: registered memory is not invalidated early, since a late RDMA Write to
// it would end the connection (RFC 8166 Section 4.5).
func (r *Requester) Cancel(c *Call) bool {
	if c.active {
		c.Canceled = true
	}
	if c.active && c.spoiled && !c.reading && r.remove(c) {
		r.window.Release()
	}
	return c.active
}

// Canceled returns how many outstanding calls nobody waits for.
func (r *Requester) Canceled() (n int) {
	for _, c := range r.table {
		for ; c != nil; c = c.next {
			if c.Canceled {
				n++
			}
		}
	}
	return n
}

// Drain empties the table when the connection is gone and calls f for every call
// that was outstanding, in no order. f may reuse the call. A new connection
// needs a new Requester.
func (r *Requester) Drain(f func(c *Call)) {
	for i, c := range r.table {
		r.table[i] = nil
		for c != nil {
			next := c.next
			c.next, c.active, c.formed, c.reading = nil, false, false, false
			r.window.Release()
			f(c)
			c = next
		}
	}
}

func (r *Requester) remove(c *Call) bool {
	if !c.active {
		return false
	}
	p := r.bucket(c.XID)
	for *p != nil && *p != c {
		p = &(*p).next
	}
	if *p == nil {
		return false // of another machine
	}
	*p, c.next, c.active, c.formed = c.next, nil, false, false
	return true
}
