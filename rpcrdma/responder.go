package rpcrdma

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/stag-rdma/stag/chunks"
	"github.com/stag-rdma/stag/credits"
	"github.com/stag-rdma/stag/xdr"
)

// Verdict is what the owner of a [Responder] has to do next with a received Send.
type Verdict uint8

// Values of [Verdict].
const (
	// Drop: nothing is sent, nothing else is due.
	Drop Verdict = iota
	// Answer: send the output of AppendAnswer. Nothing is executed.
	Answer
	// Dispatch: execute the call in Inbound.RPC and Inbound.Args, then Reply.
	Dispatch
	// Pull: assemble the call as Inbound.Layout says, then call Pulled.
	Pull
	// Done: an RDMA_DONE. Revoke and free the memory of Inbound.Done; then replies
	// that were withheld may leave.
	Done
)

// String returns "drop", "answer", "dispatch", "pull" or "done".
func (v Verdict) String() string {
	return [...]string{"drop", "answer", "dispatch", "pull", "done"}[min(v, Done)]
}

// Inbound is one call at a responder, from Receive to Reply. It may be reused
// for another once replied or dropped; it keeps its memory.
type Inbound struct {
	// Header is the header of the call. Its write list and reply chunk are
	// changed by Reply, which returns them.
	Header Header
	// Payload is the inline payload stream: a view of the Send, lent as long.
	// Empty for a long call.
	Payload []byte
	// Layout says how the call comes together; set with Pull.
	Layout chunks.Layout
	// RPC and Args are the call, set with Dispatch: views of the Send, or of the
	// buffer given to Pulled. If RPC.RPCVers is not 2, the rest of RPC is not
	// set, Args mean nothing and the answer is an RPC_MISMATCH.
	RPC  xdr.CallHeader
	Args []byte
	// Done is the exposed reply that the peer has read; set with Done.
	Done *Reply
	// Err says why the verdict is Drop or Answer.
	Err error

	refusal refusal
}

// refusal is which answer AppendAnswer makes.
type refusal uint8

const (
	refuseErrChunk refusal = iota
	refuseErrVers
	refuseGarbageArgs
)

// Reset forgets the call and all views and keeps memory.
func (in *Inbound) Reset() {
	in.Header.reset()
	in.Layout.Reset()
	in.RPC = xdr.CallHeader{} // alone: in a list of assignments it would be copied from the stack
	in.Payload, in.Args, in.Done, in.Err = nil, nil, nil, nil
	in.refusal = 0
}

// Room returns the octets that write chunk i of the call offers. ok says that the
// chunk is there and has segments: then result i, if it exists, goes there and must not
// be longer (RFC 8166 Section 4.3.2). Valid until Reply.
func (in *Inbound) Room(i int) (n uint64, ok bool) {
	if i >= len(in.Header.Write) || len(in.Header.Write[i]) == 0 {
		return 0, false
	}
	return in.Header.Write[i].Room(), true
}

// handle returns one that the call offers. ok says whether there is any.
func (in *Inbound) handle() (h chunks.Handle, ok bool) {
	l := &in.Header.Lists
	if len(l.Read) > 0 {
		return l.Read[0].Handle, true
	}
	for _, w := range l.Write {
		if len(w) > 0 {
			return w[0].Handle, true
		}
	}
	if len(l.Reply) > 0 {
		return l.Reply[0].Handle, true
	}
	return 0, false
}

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
	}
	return h.Append(b)
}

// Receive judges a Send from the peer. It borrows send until the call is
// dispatched or, with Pull, until in.Payload was placed; in is reset first.
//
// Verdicts (RFC 8166 Section 4.5; in.Err says why):
//
//	Done           the RDMA_DONE of an exposed reply
//	Drop           runts, other RDMA_DONEs, RDMA_ERROR, replies
//	Answer         other versions (ERR_VERS); bad lists, positions, sizes and XIDs, and
//	               reduced items that are not eligible (ERR_CHUNK); chunks that disagree
//	               with the inline count (GARBAGE_ARGS)
//	Dispatch, Pull every other call
//
// Dropped or not, the Send has used up a posted receive. The inline octets of an
// RDMA_MSGP are closed up inside send, around the longest item, which stays where it is.
func (r *Responder) Receive(send []byte, in *Inbound) Verdict {
	in.Reset()
	n, err := in.Header.Decode(send, &r.cfg.Limits)
	if err == nil && in.Header.Type == MsgTypeDone && r.release(in) {
		return Done
	}
	r.credits.Received()
	if err != nil {
		return r.badHeader(in, err)
	}
	if r.cfg.NoChunks && in.Header.chunked() {
		return r.answer(in, refuseErrChunk, errNoChunks)
	}
	switch in.Header.Type {
	case MsgTypeMsg:
		in.Payload = send[n:]
		return r.receiveMsg(in)
	case MsgTypeNoMsg:
		if err := in.Layout.BuildLong(in.Header.Read, &r.cfg.Limits); err != nil {
			return r.answer(in, refuseErrChunk, err)
		}
		return Pull
	case MsgTypeMsgP:
		return r.receivePadded(in, send, n)
	case MsgTypeDone, MsgTypeError: // of no reply; only for Requesters
	}
	return r.drop(in, errType)
}

// receivePadded judges an RDMA_MSGP, which is an RDMA_MSG once its pads are gone.
func (r *Responder) receivePadded(in *Inbound, send []byte, n int) Verdict {
	if r.cfg.Profile != RFC5666 {
		// "MUST return ERR_CHUNK" for a message type that is not supported.
		return r.answer(in, refuseErrChunk, errType)
	}
	if _, typ, ok := xdr.PeekXID(send[n:]); ok && typ == xdr.MsgReply {
		return r.drop(in, errDirection)
	}
	var err error
	in.Payload, err = closeCall(&in.Header, n, send[n:], r.cfg.Binding)
	switch {
	case errors.Is(err, ErrArgs):
		return r.answer(in, refuseGarbageArgs, err)
	case err != nil:
		return r.answer(in, refuseErrChunk, err)
	}
	return r.receiveMsg(in)
}

func (r *Responder) badHeader(in *Inbound, err error) Verdict {
	if he, ok := errors.AsType[*HeaderError](err); ok {
		switch he.Action {
		case ActErrVers:
			return r.answer(in, refuseErrVers, err)
		case ActErrChunk:
			return r.answer(in, refuseErrChunk, err)
		case ActDrop:
		}
	}
	return r.drop(in, err)
}

// receiveMsg judges an RDMA_MSG: everything that can be known before a pull.
func (r *Responder) receiveMsg(in *Inbound) Verdict {
	switch err := checkDirection(in.Payload, in.Header.XID, xdr.MsgCall); {
	case errors.Is(err, errDirection):
		return r.drop(in, err)
	case err != nil:
		return r.answer(in, refuseErrChunk, err)
	}
	if err := in.parse(in.Payload); err != nil {
		return r.answer(in, refuseErrChunk, err)
	}
	// A call of another RPC version is answered without its arguments.
	if len(in.Header.Read) == 0 || in.RPC.RPCVers != xdr.RPCVersion {
		return Dispatch
	}
	if err := in.Layout.Build(in.Header.Read, len(in.Payload), &r.cfg.Limits); err != nil {
		return r.answer(in, refuseErrChunk, err)
	}
	if v := r.checkArg(in, len(in.Payload)); v != Dispatch {
		return v
	}
	return Pull
}

// Pulled goes on with a call that was pulled: buf is the whole message, at least
// in.Layout.Total octets, laid out as in.Layout says. It is borrowed until the
// call is executed. The verdict is Dispatch or Answer.
//
// A pull that fails has no verdict: it ends the connection (RFC 8166 Section
// 4.5.3), and no handler may see the buffer.
func (r *Responder) Pulled(in *Inbound, buf []byte) Verdict {
	msg := buf[:in.Layout.Total]
	if err := checkDirection(msg, in.Header.XID, xdr.MsgCall); err != nil {
		return r.answer(in, refuseErrChunk, err)
	}
	if err := in.parse(msg); err != nil {
		return r.answer(in, refuseErrChunk, err)
	}
	if in.RPC.RPCVers == xdr.RPCVersion && in.Layout.Long && len(in.Layout.Chunks) > 0 {
		if v := r.checkArg(in, len(msg)); v != Dispatch {
			return v
		}
	}
	if in.RPC.RPCVers == xdr.RPCVersion && r.anyItem(&in.RPC) {
		if err := checkCounts(msg, in.Layout.Chunks); err != nil {
			return r.answer(in, refuseGarbageArgs, err)
		}
	}
	return Dispatch
}

// parse reads the RPC header of msg.
func (in *Inbound) parse(msg []byte) error {
	d := xdr.NewDecoder(msg)
	if err := in.RPC.Parse(&d); err != nil {
		return err
	}
	in.Args = d.Rest()
	return nil
}

// anyItem reports whether any opaque of a program may be reduced: with profile
// RFC5666, when no binding speaks for it (RFC 5666 Section 3.4).
func (r *Responder) anyItem(call *xdr.CallHeader) bool {
	return r.cfg.Profile == RFC5666 && !chunks.Covers(r.cfg.Binding, call.Prog, call.Vers)
}

// checkArg compares the ordinary read chunks with the binding (RFC 8166 Section
// 6.1): one chunk, exactly at the eligible argument, and as long as its count,
// padded or not. in.Args are the end of a stream of n octets, reduced or not.
//
// Choice: chunks that are not eligible are refused. RFC 5667 would ignore them, and so
// execute calls with truncated arguments.
func (r *Responder) checkArg(in *Inbound, n int) Verdict {
	b, call := r.cfg.Binding, &in.RPC
	if call.Cred.Protected() { // RFC 8166 Section 8.2.2.3: not even looked at
		return r.answer(in, refuseErrChunk, ErrNotEligible)
	}
	if r.anyItem(call) {
		if in.Layout.Chunks[0].Pos < n-len(in.Args)+4 { // in the RPC header
			return r.answer(in, refuseErrChunk, ErrNotEligible)
		}
		return Dispatch // Pulled looks at the counts
	}
	if l := chunks.ListerOf(b, call.Prog, call.Vers); l != nil {
		return r.checkItems(in, l, n)
	}
	arg := false
	if b != nil {
		arg, _ = b.Eligible(call.Prog, call.Vers, call.Proc)
	}
	switch {
	case !arg:
		return r.answer(in, refuseErrChunk, &BindingError{call.Prog, call.Vers, call.Proc})
	case len(in.Layout.Chunks) != 1:
		return r.answer(in, refuseErrChunk, ErrNotEligible)
	}
	pos, count, ok := b.FindArg(call.Prog, call.Vers, call.Proc, in.Args)
	at := in.Layout.Chunks[0]
	switch {
	case !ok:
		return r.answer(in, refuseGarbageArgs, ErrArgs)
	case at.Pos != n-len(in.Args)+pos:
		return r.answer(in, refuseErrChunk, ErrNotEligible)
	case !at.Holds(count):
		return r.answer(in, refuseGarbageArgs, errItemLength)
	}
	return Dispatch
}

// checkItems is checkArg for programs that can have several eligible arguments: every chunk
// must be exactly at one, and as long as its count, padded or not.
func (r *Responder) checkItems(in *Inbound, l chunks.Lister, n int) Verdict {
	list, call := in.Layout.Chunks, &in.RPC
	whole := n == in.Layout.Total // Args has the data of the chunks
	shift, k := n-len(in.Args), 0
	var bad error
	ok := l.ListArgs(call.Prog, call.Vers, call.Proc, in.Args, func(pos, count int) int {
		inline := count + xdr.Pad(count)
		if k == len(list) || list[k].Pos != shift+pos {
			return inline
		}
		if !list[k].Holds(count) {
			bad = errItemLength
			return -1
		}
		k++
		if whole {
			return inline
		}
		shift += inline
		return 0
	})
	switch {
	case bad != nil:
		return r.answer(in, refuseGarbageArgs, bad)
	case k < len(list): // whatever ok is: the walk fails where the data of a chunk are missing
		return r.answer(in, refuseErrChunk, ErrNotEligible)
	case !ok && len(list) == 0:
		return r.answer(in, refuseGarbageArgs, ErrArgs)
	}
	return Dispatch
}

// Defer goes on with a call whose verdict is Pull but whose data are to stay at the
// peer until the handler asks for them. Its verdict is one of these:
//
//	Dispatch  in.RPC and in.Args are the reduced call, views of in.Payload, and
//	          in.Reduced says what is missing from it
//	Answer    the chunks disagree with the inline counts
//	Pull      a long call, whose arguments are in chunks themselves: it must be pulled
//	          whole
//
// The owner does those of in.Layout.Pulls that the handler wants, in any order, before
// Reply: the reply tells the peer that nobody accesses its memory any more (RFC 8166
// Section 3.5.3).
func (r *Responder) Defer(in *Inbound) Verdict {
	if in.Layout.Long {
		return Pull
	}
	end := 0
	for i := range in.Layout.Chunks {
		// Choice: a chunk directly after another, without a count word of its own in the
		// reduced stream, is refused; see checkCounts.
		pos, n := in.Reduced(i)
		if pos < end+4 || n < 0 || !in.Layout.Chunks[i].Holds(n) {
			return r.answer(in, refuseGarbageArgs, errItemLength)
		}
		end = pos
	}
	return Dispatch
}

// Reduced returns the offset in Args at which the data of chunk i of Layout.Chunks are
// missing, just after their count word, and the count, in octets. It is for calls that
// were deferred. If the offset is not in Args, the count is -1.
func (in *Inbound) Reduced(i int) (pos, n int) {
	missing := 0
	for _, c := range in.Layout.Chunks[:i] {
		missing += c.Len + xdr.Pad(c.Len)
	}
	pos = in.Layout.Chunks[i].Pos - missing - (len(in.Payload) - len(in.Args))
	if pos < 4 || pos > len(in.Args) {
		return pos, -1
	}
	if v := binary.BigEndian.Uint32(in.Args[pos-4:]); v <= 1<<30 {
		return pos, int(v)
	}
	return pos, -1
}

// Unreduced returns the octets of the arguments with all data and pads in place, for a
// call that was deferred.
func (in *Inbound) Unreduced() int { return in.Layout.Total - (len(in.Payload) - len(in.Args)) }

// ForRequester reports whether a Send is for the [Requester] of the end that received it, or for
// its [Responder], on a connection with both directions (RFC 8167). The message decides, not the
// role of the end:
//
//	RDMA_MSG    msg_type of the RPC message: REPLY or CALL
//	RDMA_NOMSG  a read list is a call, else a reply chunk is a reply
//	RDMA_ERROR  answers a call
//	RDMA_DONE   follows a reply
//
// If the Send does not tell, and so neither machine can use it, ForRequester returns byDefault:
// true at the end that opened the connection. It borrows send, checks its lengths and allocates
// nothing.
func ForRequester(send []byte, byDefault bool) bool {
	if len(send) < FixedSize {
		return byDefault
	}
	switch typ := MsgType(binary.BigEndian.Uint32(send[12:])); {
	case typ == MsgTypeError:
		return true
	case binary.BigEndian.Uint32(send[4:]) != Version:
		return byDefault
	case typ == MsgTypeDone:
		return false
	case typ > MsgTypeNoMsg:
		return byDefault
	}
	l := peekLists(send[FixedSize:])
	switch {
	case !l.ok:
		return byDefault
	case MsgType(binary.BigEndian.Uint32(send[12:])) == MsgTypeMsg:
		_, typ, ok := xdr.PeekXID(l.rest)
		if !ok || typ > xdr.MsgReply {
			return byDefault
		}
		return typ == xdr.MsgReply
	case l.read:
		return false
	case l.reply:
		return true
	}
	return byDefault
}

// peeked is what peekLists finds.
type peeked struct {
	read, reply bool   // there is a read list, a reply chunk
	rest        []byte // after the lists
	ok          bool   // the lists end within the Send
}

// peekLists walks over the lists of a header without taking anything out of them.
func peekLists(b []byte) (l peeked) {
	w := walk{b}
	for w.more() { // read list
		l.read = true
		w.skip(chunks.ReadSegmentSize)
	}
	for w.more() { // write list
		w.skipChunk()
	}
	if w.more() {
		l.reply = true
		w.skipChunk()
	}
	l.rest, l.ok = w.b, w.b != nil
	return l
}

// walk is the octets not walked over, nil when there were too few.
type walk struct{ b []byte }

// more reads the word that says whether something follows. Choice: here any word but 0 says
// so; the decoder of the header refuses those other than 1.
func (w *walk) more() bool { return w.word() != 0 }

func (w *walk) word() uint32 {
	if len(w.b) < 4 {
		w.b = nil
		return 0
	}
	v := binary.BigEndian.Uint32(w.b)
	w.b = w.b[4:]
	return v
}

func (w *walk) skip(n int) {
	if len(w.b) < n {
		w.b = nil
		return
	}
	w.b = w.b[n:]
}

func (w *walk) skipChunk() {
	n := uint64(w.word()) * chunks.SegmentSize
	if n > uint64(len(w.b)) {
		w.b = nil
		return
	}
	w.b = w.b[n:]
}
