package rpcrdma

import (
	"encoding/binary"
	"fmt"
	"math"

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
	padded uint64   // calls sent and replies taken as RDMA_MSGP
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
func (r *Requester) Padded() uint64 { return r.padded }

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
	return nil
}

// Abort undoes Begin: for a call of which nothing was sent. It does nothing to a
// call that is not outstanding.
func (r *Requester) Abort(c *Call) {
	if r.remove(c) {
		r.window.Release()
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

// AppendCall appends the Send of a call that was planned: the header and, unless
// the call is long, the inline octets. If these end with at least GatherMin octets of
// an item, those are not copied: body is the item, and the end of the Send. Else
// body is nil. head and body together never exceed SendSize.
//
// It borrows c.Memory. Errors, after which b is unchanged: [ErrMemory] when a
// part is missing or has another size, [ErrTooLong] when more segments were
// given than fit.
func (r *Requester) AppendCall(b []byte, c *Call) (head, body []byte, err error) {
	head, body, err = r.appendCall(b, c)
	c.formed = err == nil
	return head, body, err
}

func (r *Requester) appendCall(b []byte, c *Call) (head, body []byte, err error) {
	if c.Plan == (Plan{}) && len(c.Message.Items) == 0 {
		return r.appendShort(b, c)
	}
	if !c.offer() {
		return b, nil, ErrMemory
	}
	h := Header{XID: c.XID, Vers: Version, Credit: r.window.Request(), Type: MsgTypeMsg, Lists: c.lists}
	inline := 0
	if c.Plan.Form == FormLong {
		h.Type = MsgTypeNoMsg
	} else {
		inline = c.Message.ReducedLen(c.out)
	}
	if c.Plan.Padded {
		if b, ok := r.appendPadded(b, c, &h, inline); ok {
			return b, nil, nil
		}
	}
	if h.Size()+inline > r.cfg.SendSize {
		return b, nil, ErrTooLong
	}
	head = h.Append(b)
	if inline > 0 {
		c.pieces = c.Message.Pieces(c.pieces[:0], c.out)
		big := r.cfg.GatherMin
		if !c.endsWithItem() {
			big = 0
		}
		head, body = gather(head, c.pieces, big)
	}
	return head, body, nil
}

// endsWithItem reports whether the last of c.pieces is the data of the last item.
func (c *Call) endsWithItem() bool {
	n := len(c.Message.Items)
	if n == 0 || c.out.Has(n-1) {
		return false
	}
	last, item := c.pieces[len(c.pieces)-1], c.Message.Items[n-1].Data
	return len(last) == len(item) && len(item) > 0 && &last[0] == &item[0]
}

// appendShort is AppendCall for a call without items and chunks, as most are.
func (r *Requester) appendShort(b []byte, c *Call) (head, body []byte, err error) {
	if MinHeaderSize+len(c.Message.Head)+len(c.Message.Body) > r.cfg.SendSize {
		return b, nil, ErrTooLong
	}
	c.lists.Reset()
	head = appendShortHeader(b, c.XID, r.window.Request())
	return append(append(head, c.Message.Head...), c.Message.Body...), nil, nil
}

// appendPadded appends a call as an RDMA_MSGP, unless more segments were given
// than leave room for the padding.
func (r *Requester) appendPadded(b []byte, c *Call, h *Header, inline int) ([]byte, bool) {
	pad, it := padding{r.cfg.Align, r.cfg.AlignMin}, &c.Message.Items[0]
	if !pad.fits(h.Size(), inline, len(it.Data), r.cfg.SendSize) {
		return b, false
	}
	c.pieces = c.Message.Pieces(c.pieces[:0], c.out)
	r.padded++
	return pad.appendPadded(b, h, c.pieces, it.Pos, len(it.Data)), true
}

// gather appends pieces to head. If big is not 0, a last piece of at least big octets
// is not copied but returned as body.
func gather(head []byte, pieces [][]byte, big int) (h, body []byte) {
	if n := len(pieces); n > 0 && big > 0 && len(pieces[n-1]) >= big {
		body, pieces = pieces[n-1], pieces[:n-1]
	}
	for _, p := range pieces {
		head = append(head, p...)
	}
	return head, body
}

// offer fills c.lists from c.Memory as c.Plan says and reports whether the
// memory is what was planned.
func (c *Call) offer() bool {
	c.lists.Reset()
	if c.Plan.Stream > 0 && !c.offerRead(0, c.Memory.Stream, c.Plan.Stream) {
		return false
	}
	if c.Plan.Arg && !c.offerItem(0, c.Memory.Arg) {
		return false
	}
	for i := 1; c.Plan.More != 0 && i < len(c.Message.Items); i++ {
		if c.Plan.More.Has(i) && (i > len(c.Memory.More) || !c.offerItem(i, c.Memory.More[i-1])) {
			return false
		}
	}
	if c.Plan.Sink {
		if !c.offerSink(c.Memory.Sink, c.Sink) || len(c.MoreSinks) > len(c.Memory.MoreSinks) {
			return false
		}
		for i, n := range c.MoreSinks {
			if !c.offerSink(c.Memory.MoreSinks[i], n) {
				return false
			}
		}
	}
	if c.Plan.Reply > 0 {
		c.lists.HasReply = true
		c.lists.Reply = append(c.lists.Reply, c.Memory.Reply...)
		return exactly(c.lists.Reply, c.Plan.Reply)
	}
	return true
}

func (c *Call) offerItem(i int, mem chunks.WriteChunk) bool {
	it := &c.Message.Items[i]
	return int64(it.Pos) <= math.MaxUint32 && c.offerRead(uint32(it.Pos), mem, len(it.Data))
}

func (c *Call) offerSink(mem chunks.WriteChunk, n int) bool {
	w := c.lists.AddWrite()
	*w = append(*w, mem...)
	return exactly(*w, n)
}

func (c *Call) offerRead(pos uint32, mem chunks.WriteChunk, n int) bool {
	for _, s := range mem {
		c.lists.Read = append(c.lists.Read, chunks.ReadSegment{Position: pos, Segment: s})
	}
	return exactly(mem, n)
}

func exactly(c chunks.WriteChunk, n int) bool { return c.Room() == uint64(n) }

// backwardDataSize is the size of the block of [BackwardData], octets.
const backwardDataSize = 8

const (
	backwardMagic   = 0x62776431 // "bwd1"
	backwardVersion = 1
)

// BackwardData is the block that the end that opens a connection appends to [PrivateData] in its
// private data, if it accepts calls in the backward direction:
//
//	octets  field
//	4       0x62776431
//	1       version, 1
//	1       0, ignored
//	2       Credits, 1 to 65535
//
// Choice: RFC 8167 Section 5.3 leaves this announcement to the upper layer, "otherwise, even a
// simple backward-direction RPC NULL Call from a peer could result in a lost connection". Peers
// that do not know the block ignore it.
type BackwardData struct {
	Credits uint16 // backward calls taken at once
}

// Append appends the 8 octets.
func (d BackwardData) Append(b []byte) []byte {
	b = binary.BigEndian.AppendUint32(b, backwardMagic)
	b = append(b, backwardVersion, 0)
	return binary.BigEndian.AppendUint16(b, d.Credits)
}

// ParseBackwardData finds the block just after the [PrivateData] at the start of b. It reports
// false if there is no block, or if the block has another version or no credits. It borrows b.
func ParseBackwardData(b []byte) (BackwardData, bool) {
	if len(b) < PrivateDataSize+backwardDataSize || binary.BigEndian.Uint32(b) != privateMagic {
		return BackwardData{}, false
	}
	b = b[PrivateDataSize:]
	d := BackwardData{Credits: binary.BigEndian.Uint16(b[6:])}
	if binary.BigEndian.Uint32(b) != backwardMagic || b[4] != backwardVersion || d.Credits == 0 {
		return BackwardData{}, false
	}
	return d, true
}

// planInline is Plan for a direction without chunks.
func (r *Requester) planInline(c *Call) error {
	if MinHeaderSize+c.Message.Len() > r.cfg.SendSize {
		return ErrInline
	}
	return nil
}

// chunked reports whether a call offers memory, or is nowhere but in such memory.
func (h *Header) chunked() bool {
	return h.Type == MsgTypeNoMsg || len(h.Read) > 0 || len(h.Write) > 0 || h.HasReply
}

// grantInError is the grant of an RDMA_ERROR.
func (r *Responder) grantInError(asked uint32) uint32 {
	if r.cfg.Bidirectional {
		return r.credits.GrantUnheard(asked)
	}
	return r.credits.Grant(asked)
}
