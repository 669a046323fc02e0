package rpcrdma

import (
	"github.com/stag-rdma/stag/chunks"
	"github.com/stag-rdma/stag/xdr"
)

// Form is how a message travels (RFC 8166 Section 3.5).
type Form uint8

// Values of [Form].
const (
	FormShort   Form = iota // RDMA_MSG, everything inline
	FormChunked             // RDMA_MSG, an item moved by a chunk
	FormLong                // RDMA_NOMSG, the stream moved by a chunk
	FormError               // RDMA_ERROR
)

// String returns "short", "chunked", "long" or "error".
func (f Form) String() string {
	return [...]string{"short", "chunked", "long", "error"}[min(f, FormError)]
}

// Plan is what [Requester.Plan] decided about a call: its form, and which
// memory the owner must register before [Requester.AppendCall].
type Plan struct {
	// In this order the fields leave no gaps: Plan is compared as a few words.

	// Stream: octets of the payload stream to register for remote read, 0 if the
	// call is not long; give Memory.Stream. [Call.AppendStream] makes them.
	Stream int
	// Reply: octets to register for remote write for a long reply, 0 for none;
	// give Memory.Reply.
	Reply int
	// More: further items whose data to register for remote read, as with Arg; give
	// Memory.More.
	More chunks.Set
	// Form is how the call travels.
	Form Form
	// Arg: register Message.Items[0].Data for remote read; give Memory.Arg.
	Arg bool
	// Sink: register the sink, Call.Sink octets, for remote write; give
	// Memory.Sink. If false the result will come inline or in the reply memory.
	Sink bool
	// Padded: the first item stays inline and is aligned by an RDMA_MSGP.
	Padded bool
}

// Memory says where the registered memory is. The octets of a part run through its
// segments in order. Parts that the plan does not ask for are ignored. The plan counts
// one segment per part; more are legal as long as the header fits.
type Memory struct {
	Arg, Stream, Sink, Reply chunks.WriteChunk
	// More[i] is where item i+1 is, if Plan.More has it, and MoreSinks[i] the memory of
	// Call.MoreSinks[i].
	More, MoreSinks []chunks.WriteChunk
}

// Result is the result of a call, set by [Requester.Receive] and [Requester.CheckReply].
type Result struct {
	// Read: the reply has a read list (RFC 5666 Section 3.5). Everything else but
	// Err is set by [Requester.Pulled]; until then the call stays outstanding.
	Read bool
	// Err is nil, a *[RemoteError] or a *[ProtocolError]. It says nothing about
	// the RPC status, which is in RPC.
	Err error
	// Long: the reply is in the first ReplyLen octets of the reply memory. RPC,
	// Results and what follows are set only by CheckReply.
	Long     bool
	ReplyLen int
	// RPC is the header of the reply, and Results are the octets after it: views of the Send, lent
	// like the Send, or of the argument of CheckReply.
	RPC     xdr.ReplyHeader
	Results []byte
	// Placed: the eligible result, ItemLen octets, is in the sink, and Results have neither its
	// data nor its pad.
	Placed bool
	// ItemPos is the offset in Results at which the data of the eligible result is, or belongs if
	// Placed. It is -1 if there is no such result, or the offset is not known.
	ItemPos int
	ItemLen int
}

// Call is one call of a requester, from Plan to its reply. The owner sets the first group of
// fields, and owns the memory. Calls may be reused after Reset.
type Call struct {
	XID              uint32 // not in use by an outstanding call
	Prog, Vers, Proc uint32 // for the binding
	// Message is the RPC call, from its XID on. Its items may be reduced. Borrowed until
	// the call is posted; the data of a registered item until the reply.
	Message chunks.Message
	// Protected: RPCSEC_GSS protects the body of the call and of its reply (xdr.Auth.Protected).
	// Then Message must have no items and Sink must be 0, and the reply is not searched for items
	// (RFC 8166 Section 8.2.2.3).
	Protected bool
	// Sink is the number of octets for which the owner has memory for the data of the eligible
	// result; 0: none.
	Sink int
	// MoreSinks are the same for further eligible results, in their order. Either all sinks are
	// offered or none; a sink of 0 octets asks for its result inline.
	MoreSinks []int
	// MaxReply bounds the RPC reply message, header included, without the data
	// that the sink takes, in octets. 0: fits inline.
	MaxReply int

	// Owner belongs to the owner, which can find its own record of a call by it when Receive or
	// Drain returns the call. The package does not use it.
	Owner any

	Plan   Plan   // set by Requester.Plan
	Result Result // set by Requester.Receive
	// Lens are the octets of results in Sink and MoreSinks, if the Plan offers them. Set
	// with Result.
	Lens []int

	// Canceled is set by Requester.Cancel: nobody waits for this call.
	Canceled bool

	spoiled bool // a reply to it was dropped

	out    chunks.Set   // items that travel by chunk
	lists  chunks.Lists // as offered
	pieces [][]byte
	next   *Call // in the table
	active bool  // in the table
	formed bool  // AppendCall has made its Send

	reading bool // its reply is being read: other replies are dropped

	// Layout says how a reply with a read list comes together, in memory of its
	// own; Inline are its inline octets, lent like the Send.
	Layout chunks.Layout
	Inline []byte
	placed int    // octets in the sink, of such a reply
	Memory Memory // set by the owner, as Plan asks
}

// Reset makes c ready for another call and keeps its memory. c must not be outstanding.
func (c *Call) Reset() {
	c.XID, c.Prog, c.Vers, c.Proc = 0, 0, 0, 0
	c.Message = chunks.Message{}
	c.Protected, c.Sink, c.MaxReply, c.Owner = false, 0, 0, nil
	c.MoreSinks, c.Lens = c.MoreSinks[:0], c.Lens[:0]
	clear(c.pieces)
	c.pieces, c.next = c.pieces[:0], nil
	if c.Plan != (Plan{}) || c.Result.Read { // most calls have no chunks, and half as much to reset
		c.resetChunks()
	}
	c.Result = Result{}
	c.Canceled, c.spoiled, c.active, c.formed, c.reading = false, false, false, false, false
}

// resetChunks is Reset for what calls with chunks use, and replies with chunks.
func (c *Call) resetChunks() {
	m := &c.Memory
	m.Arg, m.Stream, m.Sink, m.Reply = m.Arg[:0], m.Stream[:0], m.Sink[:0], m.Reply[:0]
	m.More, m.MoreSinks = m.More[:0], m.MoreSinks[:0]
	c.lists.Reset()
	c.Layout.Reset()
	c.Inline, c.Plan, c.out, c.placed = nil, Plan{}, 0, 0
}

// AppendStream appends the payload stream of a long call, for which the owner has to register
// Plan.Stream octets of memory.
func (c *Call) AppendStream(b []byte) []byte { return c.Message.Append(b, c.out) }

// Offers reports whether the call has offered handle h, which the peer may then invalidate with
// the reply (RFC 8797 Section 4.1).
func (c *Call) Offers(h chunks.Handle) bool {
	for i := range c.lists.Read {
		if c.lists.Read[i].Handle == h {
			return true
		}
	}
	for _, w := range c.lists.Write {
		if offers(w, h) {
			return true
		}
	}
	return offers(c.lists.Reply, h)
}

func offers(c chunks.WriteChunk, h chunks.Handle) bool {
	for i := range c {
		if c[i].Handle == h {
			return true
		}
	}
	return false
}

// Lists returns the chunk lists that the Send of AppendCall offers: lent until Reset.
func (c *Call) Lists() *chunks.Lists { return &c.lists }

// Header octets that one chunk of one segment adds.
const (
	readChunkSize  = 4 + chunks.ReadSegmentSize
	replyChunkSize = 4 + chunks.SegmentSize // its presence word is there anyway
)

// Plan decides the form of a call and of its reply from their sizes (RFC 8166
// Section 3.5) and sets c.Plan. It changes nothing else, so it may be called
// before a credit is there.
//
// Reply: a sink becomes a write chunk when the data would not fit inline or are
// at least ReduceMin octets; a reply chunk is offered when the largest reply
// still exceeds RecvSize (RFC 8166 Section 4.3.3). Call: items are reduced by
// the same rule, the longest first; if the rest exceeds SendSize the call goes long.
// Choice: if the peer's alignment is known, an item that fits inline with its padding is not
// reduced, so that "the need for servers to perform RDMA Read [...] is obviated" (RFC 5666
// Section 3.9).
//
// Errors: chunks.ErrItem, [ErrTooLong], [ErrInline].
func (r *Requester) Plan(c *Call) error {
	c.Plan = Plan{}
	c.out = 0
	if len(c.Message.Items) == 0 && c.Sink == 0 && len(c.MoreSinks) == 0 &&
		MinHeaderSize+len(c.Message.Head)+len(c.Message.Body) <= r.cfg.SendSize &&
		MinHeaderSize+c.MaxReply <= r.cfg.RecvSize {
		return nil // as most are
	}
	if err := c.Message.Check(); err != nil {
		return err
	}
	if r.cfg.NoChunks {
		return r.planInline(c)
	}
	hdr := r.planReply(c)

	n := c.Message.Len()
	pad := padding{r.cfg.Align, r.cfg.AlignMin}
	if item := firstItem(&c.Message); r.walks(c) && pad.fits(hdr, n, item, r.cfg.SendSize) {
		c.Plan.Padded = true
		return nil
	}
	for i := c.nextItem(r.cfg.ReduceMin); i >= 0; i = c.nextItem(r.cfg.ReduceMin) {
		hdr += c.reduce(i)
		n = c.Message.ReducedLen(c.out)
	}
	for i := c.nextItem(1); i >= 0 && hdr+n > r.cfg.SendSize; i = c.nextItem(1) {
		hdr += c.reduce(i)
		n = c.Message.ReducedLen(c.out)
	}
	if hdr+n > r.cfg.SendSize {
		c.Plan.Form, c.Plan.Stream = FormLong, n
		hdr += readChunkSize
		n = 0
	}
	if hdr+n > r.cfg.SendSize {
		return ErrTooLong
	}
	return nil
}

// walks reports whether the items of c can be found by who gets it as an RDMA_MSGP.
func (r *Requester) walks(c *Call) bool {
	return chunks.WalkerOf(r.cfg.Binding, c.Prog, c.Vers) != nil
}

// planReply decides what memory the reply needs and returns the size of a call
// header that offers it.
func (r *Requester) planReply(c *Call) (hdr int) {
	hdr = MinHeaderSize
	reply := MinHeaderSize + c.MaxReply
	if data, longest, list := c.sinks(); longest > 0 {
		if reply+data > r.cfg.RecvSize || longest >= r.cfg.SinkMin {
			c.Plan.Sink = true
			hdr += list
			reply += list
		} else {
			reply += data
		}
	}
	if reply > r.cfg.RecvSize {
		c.Plan.Reply = c.MaxReply
		hdr += replyChunkSize
	}
	return hdr
}

// firstItem returns the octets of the item that may be reduced.
func firstItem(m *chunks.Message) int {
	if len(m.Items) == 0 {
		return 0
	}
	return len(m.Items[0].Data)
}

// nextItem returns the longest item that is not reduced yet and has at least so many octets;
// -1: there is none.
func (c *Call) nextItem(least int) (next int) {
	next = -1
	for i := range c.Message.Items {
		if n := len(c.Message.Items[i].Data); n >= max(least, 1) && i < 64 && !c.out.Has(i) {
			next, least = i, n+1
		}
	}
	return next
}

// reduce takes item i out of the stream and returns what that adds to the header.
func (c *Call) reduce(i int) int {
	c.Plan.Form, c.out = FormChunked, c.out.With(i)
	if i == 0 {
		c.Plan.Arg = true
	} else {
		c.Plan.More = c.Plan.More.With(i)
	}
	return readChunkSize
}

// sinks returns the octets that the results for all sinks take inline, the longest sink, and
// the octets of the write list that offers them.
func (c *Call) sinks() (data, longest, list int) {
	add := func(n int) {
		data += n + xdr.Pad(n)
		longest = max(longest, n)
		if list += 4 + 4; n > 0 {
			list += chunks.SegmentSize
		}
	}
	add(c.Sink)
	for _, n := range c.MoreSinks {
		add(n)
	}
	return data, longest, list
}
