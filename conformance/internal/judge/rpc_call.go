package judge

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"

	"github.com/stag-rdma/stag/chunks"
	"github.com/stag-rdma/stag/conformance/internal/decode"
	"github.com/stag-rdma/stag/rpcrdma"
	"github.com/stag-rdma/stag/xdr"
)

// rpcCall is an RPC call that was seen. It is kept for some time after its reply.
type rpcCall struct {
	xid   uint32
	frame int
	vers  uint32 // rdma_vers
	typ   rpcrdma.MsgType
	lists chunks.Lists // a copy
	flaw  flaw         // of its header

	known                bool // program, version, procedure
	prog, progVers, proc uint32
	gss                  bool       // RPCSEC_GSS with integrity or privacy
	wrongRPC             bool       // rpcvers is not 2
	wrongArgs            bool       // the arguments do not decode
	goodArgs             bool       // they do, and nothing is wrong with them
	again                bool       // was sent before
	second               *Violation // it has the XID of a call that waited
	unwritten            *Violation // its reply came before all RDMA Writes
	odd                  *Violation // its procedure and its arguments, or chunks, do not fit each other

	memory []*memory // what the lists offer, in their order
	nfs    nfsAsked  // what the replies of NFS are judged by
	nfs4   compoundAsked
}

// flaw is what makes a call unusable to its responder.
type flaw uint8

const (
	sound       flaw = iota
	tooShort         // dropped without an answer
	wrongVers        // ERR_VERS
	wrongHeader      // ERR_CHUNK
	wrongCall        // its RPC header does not decode: ERR_CHUNK, or a reply that refuses it
	unjudged         // unknown: its header is not decoded
)

// use is the purpose for which a segment of memory was offered.
type use uint8

const (
	forRead  use = iota // of a Read list
	forWrite            // of a Write list
	forReply            // of the Reply chunk
)

// memory is a segment that a call offers, and the octets of it that were moved.
type memory struct {
	chunks.Segment
	use   use
	moved spans // read, or written
	call  *rpcCall
}

// holds reports whether n octets from to are inside.
func (m *memory) holds(to uint64, n int) bool {
	return to >= m.Offset && to-m.Offset <= uint64(m.Length) && uint64(n) <= uint64(m.Length)-(to-m.Offset)
}

// offer records the memory that the chunk lists of a call offer.
func (c *rpcCall) offer(l *chunks.Lists) {
	c.lists.Read = slices.Clone(l.Read)
	for _, w := range l.Write {
		c.lists.Write = append(c.lists.Write, slices.Clone(w))
	}
	c.lists.Reply, c.lists.HasReply = slices.Clone(l.Reply), l.HasReply
	for _, s := range c.lists.Read {
		c.memory = append(c.memory, &memory{Segment: s.Segment, use: forRead, call: c})
	}
	for _, w := range c.lists.Write {
		c.offerChunk(w, forWrite)
	}
	c.offerChunk(c.lists.Reply, forReply)
}

func (c *rpcCall) offerChunk(w chunks.WriteChunk, u use) {
	for _, s := range w {
		c.memory = append(c.memory, &memory{Segment: s, use: u, call: c})
	}
}

// segments returns the memory of Write chunk i, or of the Reply chunk for i = -1.
func (c *rpcCall) segments(i int) []*memory {
	at := len(c.lists.Read)
	for j, w := range c.lists.Write {
		if j == i {
			return c.memory[at : at+len(w)]
		}
		at += len(w)
	}
	return c.memory[at:]
}

// pulled reports whether all octets of the Read chunks were read.
func (c *rpcCall) pulled() bool {
	for _, m := range c.memory[:len(c.lists.Read)] {
		if !m.moved.cover(0, uint64(m.Length)) {
			return false
		}
	}
	return true
}

// offers reports whether the call offers memory with this handle.
func (c *rpcCall) offers(h chunks.Handle) bool {
	return slices.ContainsFunc(c.memory, func(m *memory) bool { return m.Handle == h })
}

// rpcSide holds the calls that one side has sent, and the memory that they offer.
type rpcSide struct {
	calls   map[uint32]*rpcCall         // unanswered
	order   []*rpcCall                  // oldest first; may hold calls that are gone from calls
	mem     map[chunks.Handle][]*memory // of calls, and of old
	old     map[uint32]*rpcCall         // the last ones that were answered
	fifo    []*rpcCall                  // old, oldest first
	reads   []readInProgress            // of this side's memory, not wholly answered, oldest first
	credit  credits
	refused []uint32 // versions, at most 16
	held    int      // segments in mem
	forgot  bool     // a call that waited was forgotten
	buried  bool     // so was one that was answered, with its memory
	runts   int      // Sends too short to answer
}

// Bounds of what is remembered per direction.
const (
	maxCalls  = 4096    // unanswered
	maxOld    = 256     // answered
	maxMemory = 1 << 14 // segments that both offer
	maxPulls  = 1 << 14
)

// add enters a call. If there are too many, the oldest are forgotten.
func (s *rpcSide) add(c *rpcCall) {
	if s.calls == nil {
		s.calls, s.old = make(map[uint32]*rpcCall), make(map[uint32]*rpcCall)
		s.mem = make(map[chunks.Handle][]*memory)
	}
	if before := s.calls[c.xid]; before != nil {
		s.forget(before)
	}
	if before := s.old[c.xid]; before != nil { // a retry: its reply is not a second one
		s.bury(before)
	}
	s.calls[c.xid] = c
	s.order = append(s.order, c)
	s.held += len(c.memory)
	for _, m := range c.memory {
		s.mem[m.Handle] = append(s.mem[m.Handle], m)
	}
	s.trim()
}

// trim enforces the bounds. Forgotten calls may still be answered, and their memory touched: rules that
// depend on them are silent then.
func (s *rpcSide) trim() {
	for s.held > maxMemory && len(s.fifo) > 0 {
		s.buried = true
		s.bury(s.fifo[0])
	}
	if len(s.order) > 2*len(s.calls)+64 {
		s.order = slices.DeleteFunc(s.order, func(c *rpcCall) bool { return !s.waits(c) })
	}
	for len(s.order) > 1 && (len(s.calls) > maxCalls || s.held > maxMemory) {
		if first := s.order[0]; s.waits(first) {
			s.forget(first)
			s.forgot = true
		}
		s.order = s.order[1:]
	}
}

// answered moves a call from those that wait to those that were answered.
func (s *rpcSide) answered(c *rpcCall) {
	delete(s.calls, c.xid)
	for len(s.order) > 0 && !s.waits(s.order[0]) {
		s.order = s.order[1:]
	}
	s.old[c.xid] = c
	s.fifo = append(s.fifo, c)
	if len(s.fifo) > maxOld {
		s.buried = s.buried || len(s.fifo[0].memory) > 0
		s.bury(s.fifo[0])
	}
}

// bury forgets a call that was answered.
func (s *rpcSide) bury(c *rpcCall) {
	if i := slices.Index(s.fifo, c); i == 0 {
		s.fifo = s.fifo[1:]
	} else if i > 0 {
		s.fifo = slices.Delete(s.fifo, i, i+1)
	}
	delete(s.old, c.xid)
	s.unindex(c)
}

// forget forgets a call that was not answered.
func (s *rpcSide) forget(c *rpcCall) {
	delete(s.calls, c.xid)
	s.unindex(c)
}

func (s *rpcSide) unindex(c *rpcCall) {
	s.held -= len(c.memory)
	for _, m := range c.memory {
		rest := slices.DeleteFunc(s.mem[m.Handle], func(o *memory) bool { return o == m })
		if len(rest) == 0 {
			delete(s.mem, m.Handle)
		} else {
			s.mem[m.Handle] = rest
		}
	}
}

// waits reports whether the call has not been answered.
func (s *rpcSide) waits(c *rpcCall) bool { return s.calls[c.xid] == c }

// readInProgress is a Read Request, and how much of its Response has come.
type readInProgress struct {
	decode.ReadRequest
	mem *memory // nil: not of a chunk
}

// callKey is what a retransmission has in common with the original call.
type callKey struct {
	client                netip.Addr
	xid, prog, vers, proc uint32
}

// maxSent bounds the calls that a Judge remembers after their connections have ended. A client that loses
// its connection sends again the calls that were waiting, which are its last ones.
const maxSent = 1 << 14

// sentCalls are the last calls that offered Read chunks, on whatever connection.
type sentCalls struct {
	seen map[callKey]int // how often each is in last
	last []callKey       // a ring, once it is full
	next int
}

// add enters a call and reports whether it was sent before.
func (s *sentCalls) add(k callKey) (again bool) {
	if s.seen == nil {
		s.seen = make(map[callKey]int)
	}
	again = s.seen[k] > 0
	if len(s.last) < maxSent {
		s.last = append(s.last, k)
	} else {
		old := s.last[s.next]
		if s.seen[old]--; s.seen[old] == 0 {
			delete(s.seen, old)
		}
		s.last[s.next] = k
		s.next = (s.next + 1) % maxSent
	}
	s.seen[k]++
	return again
}

// sentBefore records a call, and whether its client has sent it before, perhaps over a connection that was
// lost.
func (m *rpcMachine) sentBefore(ev *decode.Event, c *rpcCall) {
	if !c.known || len(c.lists.Read) == 0 {
		return
	}
	client := m.info.Opener
	if ev.Dir != decode.FromOpener {
		client = m.info.Accepter
	}
	c.again = m.j.sent.add(callKey{client.Addr(), c.xid, c.prog, c.progVers, c.proc})
}

// Programs whose upper-layer bindings are known.
const (
	progRPCBind = 100000
	progNFS     = 100003
	progMount   = 100005
	progNLM     = 100021
	progNFSACL  = 100227
	progCCP     = 100417
)

// binding is which items of a program may be reduced.
type binding uint8

const (
	bindingUnknown binding = iota // anything may be
	bindingNone                   // nothing may be
	bindingNFS3                   // RFC 8267 Section 4
	bindingNFS4                   // RFC 8267 Section 5: by operation
)

// bindingOf returns the binding of a call.
func bindingOf(c *rpcCall) binding {
	switch {
	case c.proc == 0:
		return bindingNone // no arguments, no results (RFC 5531 Section 12.1)
	case c.prog == progNFS && c.progVers == 3:
		return bindingNFS3
	case c.prog == progNFS && c.progVers == 4:
		return bindingNFS4
	case c.prog == progMount, c.prog == progNLM, c.prog == progNFSACL, c.prog == progCCP, c.prog == progRPCBind:
		return bindingNone
	}
	return bindingUnknown
}

// name returns the name of a call for texts.
func (c *rpcCall) name() string { return fmt.Sprintf("procedure %d/%d/%d", c.prog, c.progVers, c.proc) }

// replyRoom judges whether there is room for the largest reply that NFSv3 can give (RFC 8166 Section 4.3.3),
// and whether the room for the data of READ is larger than the data.
func (m *rpcMachine) replyRoom(ev *decode.Event, c *rpcCall) {
	limit := m.threshold(1 - ev.Dir)
	if bindingOf(c) != bindingNFS3 || limit == 0 || c.gss {
		return
	}
	rest, item, ok := chunks.NFSv3.MaxResults(c.prog, c.progVers, c.proc, ev.RPC.Body)
	if !ok {
		return
	}
	if c.proc == procReadDir || c.proc == procReadDirPlus {
		rest -= 1024 // what the binding adds for servers that exceed the limit
	}
	size := replyHeader + rest
	for _, w := range c.lists.Write {
		size += 8 + chunks.SegmentSize*len(w)
	}
	if len(c.lists.Write) == 0 {
		size += (item + 3) &^ 3
	} else if room := c.lists.Write[0].Room(); c.proc == procRead && room > uint64(item) && room-uint64(item) <= 4 && item%4 != 0 {
		m.violate("RPCRDMA-039", "a Write chunk of %d octets for %d", room, item)
	}
	if size > limit && !c.lists.HasReply {
		m.violateAfter(c.odd, ev.Dir, "RPCRDMA-043", "the reply to %s may have %d octets, the inline threshold is %d", c.name(), size, limit)
	}
}

// Procedures of NFSv3 that need rules of their own.
const (
	procRead        = 6
	procReadDir     = 16
	procReadDirPlus = 17
)

// replyHeader is the least number of octets before the results: the transport header, and the header of an
// accepted reply.
const replyHeader = 28 + 24

// credits counts the calls of one direction against what was granted (RFC 8166 Section 3.3.1).
//
// A capture does not show when a grant reached the requester. So a grant, once seen, is taken to allow as
// many calls as it ever did: those answered up to there, plus the grant.
//
// An RDMA_DONE uses up a credit as well, until the next grant (RFC 5666 Section 3.3). It is not counted,
// since that grant may have reached the requester before the RDMA_DONE left.
type credits struct {
	sent, answered int
	allowed        int // the largest of answered + grant at any reply
	asked          int // the largest number that the calls in progress asked for
	granted        int // granted by the last reply, for the text
}

// call takes a call that asks for this many credits.
func (m *rpcMachine) creditCall(dir decode.Dir, ask uint32) {
	k := &m.sides[dir].credit
	k.sent++
	if ask == 0 {
		m.violate("RPCRDMA-064", "rdma_credit 0 in a call")
	}
	if k.sent-k.answered == 1 {
		k.asked = 0
	}
	k.asked = max(k.asked, int(min(ask, 1<<30)))
	switch n := k.sent - k.answered; {
	case m.blind():
	case k.answered == 0 && n > 1:
		m.overrun(k, "RPCRDMA-061", "%d calls before the first reply", n)
	case k.answered > 0 && k.sent > k.allowed:
		m.overrun(k, "RPCRDMA-060", "%d calls unanswered with %d credits", n, k.granted)
	case n > max(k.asked, 1):
		m.overrun(k, "RPCRDMA-062", "%d calls unanswered, %d credits asked for", n, k.asked)
	}
}

// overrun reports too many calls. If that follows from another mistake, a reply was not seen as one.
func (m *rpcMachine) overrun(k *credits, id, format string, args ...any) {
	if m.violate(id, format, args...).Cause != nil {
		k.answered++
		k.allowed = max(k.allowed, k.sent)
	}
}

// creditReply takes the answer to a call of direction dir, and its grant.
func (m *rpcMachine) creditReply(dir decode.Dir, grant uint32) {
	k := &m.sides[dir].credit
	k.answered++
	if grant == 0 {
		m.violate("RPCRDMA-063", "rdma_credit 0 in a reply")
	}
	k.granted = int(min(max(grant, 1), 1<<30)) // RFC 8166 Section 3.3.1: 0 would be a deadlock
	k.allowed = max(k.allowed, k.answered+k.granted)
}

// inline judges the length of a Send (RFC 8166 Section 3.3.2).
func (m *rpcMachine) inline(ev *decode.Event, n int) {
	if limit := m.threshold(ev.Dir); limit > 0 && n > limit {
		m.violate("RPCRDMA-070", "Send of %d octets, the inline threshold is %d", n, limit)
	}
}

// threshold returns the inline threshold of Sends in direction dir, 0 while it is unknown.
func (m *rpcMachine) threshold(dir decode.Dir) int {
	if m.info.Request == nil || m.info.Reply == nil {
		return 0
	}
	from, to := m.private(dir), m.private(1-dir)
	limit, _ := from.Inline(to)
	switch agreed := m.limits[dir]; {
	case agreed == 0:
		return limit
	case m.info.Request.CM == nil || m.info.Reply.CM == nil:
		return agreed // CONF_RDMA alone (RFC 5666 Section 6)
	default:
		return min(limit, agreed) // Choice: it only lowers what RFC 8797 has agreed
	}
}

// private returns the private data of a side, or the defaults if it sent none (RFC 8797 Section 5).
func (m *rpcMachine) private(dir decode.Dir) rpcrdma.PrivateData {
	f := m.info.Reply
	if dir == m.info.Initiator {
		f = m.info.Request
	}
	if f != nil && f.CM != nil {
		return *f.CM
	}
	return rpcrdma.PrivateData{SendSize: rpcrdma.DefaultInline, RecvSize: rpcrdma.DefaultInline}
}

// cmMagic begins the private data of RPC-over-RDMA (RFC 8797 Section 4).
const cmMagic = 0xf6ab0e18

// startup judges the private data of RPC-over-RDMA. Choice: only at the beginning of the private data, where
// Linux looks for it.
func (m *rpcMachine) startup(ev *decode.Event) {
	b := ev.Startup.PrivateData
	if len(b) < 4 || binary.BigEndian.Uint32(b) != cmMagic {
		return
	}
	switch {
	case len(b) < rpcrdma.PrivateDataSize:
		m.violate("RPCRDMA-071", "%d octets of %d", len(b), rpcrdma.PrivateDataSize)
	case b[4] != rpcrdma.Version:
		m.violate("RPCRDMA-071", "version %d", b[4])
	case b[5]&^1 != 0:
		m.violate("RPCRDMA-072", "flags %#02x", b[5])
	}
}

// invalidates judges Send with Invalidate. c is the call that the Send answers, nil if it answers none.
func (m *rpcMachine) invalidates(ev *decode.Event, c *rpcCall) {
	if !ev.RDMAP.Op.Invalidates() {
		return
	}
	tag := ev.RDMAP.Invalidate
	switch {
	case c == nil:
		m.violate("RPCRDMA-075", "invalidates %v", tag)
	case !c.offersSTag(tag):
		m.violate("RPCRDMA-074", "invalidates %v, which the call in frame %d has not offered", tag, c.frame)
	case m.info.Request == nil || m.info.Reply == nil:
	case !m.private(0).MayInvalidate(m.private(1)):
		m.violate("RPCRDMA-073", "invalidates %v; not both sides have set the R flag", tag)
	}
}

// Choice: a connection is judged by RFC 8166 unless it uses the Connection Configuration Protocol, which
// only RFC 5666 has, or may have used it where the capture has nothing.

// msgP judges RDMA_MSGP.
func (m *rpcMachine) msgP(h *rpcrdma.Header) {
	switch {
	case h.Type != rpcrdma.MsgTypeMsgP:
	case !m.old && m.blind():
	case !m.old:
		m.violate("RPCRDMA-090", "RDMA_MSGP")
	case h.Align < 4 || h.Align&(h.Align-1) != 0:
		m.violate("RPCRDMA-093", "rdma_align %d", h.Align)
	}
}

// done judges RDMA_DONE (RFC 5666 Section 3.4): the requester does not need the reply with this XID any
// more. It need not have read all of the reply if nobody waits for the call any more.
func (m *rpcMachine) done(ev *decode.Event, h *rpcrdma.Header) {
	m.invalidates(ev, nil)
	if !m.old && !m.blind() {
		m.violate("RPCRDMA-091", "RDMA_DONE")
		return
	}
	server := &m.sides[1-ev.Dir]
	c := server.calls[h.XID]
	switch {
	case m.blind() || server.forgot:
	case c == nil:
		m.violate("RPCRDMA-092", "no reply with XID %#08x waits to be read", h.XID)
	case slices.ContainsFunc(server.reads, func(r readInProgress) bool { return r.mem != nil && r.mem.call == c }):
		m.violate("RPCRDMA-092", "a Read of the reply in frame %d is not answered", c.frame)
	}
	if c != nil {
		server.answered(c)
	}
}

// replyReads judges the Read list of a reply. It offers memory of the server until RDMA_DONE, which is kept
// as if the server had sent a call.
func (m *rpcMachine) replyReads(ev *decode.Event, h *rpcrdma.Header) {
	if !m.old && !m.blind() {
		m.violate("RPCRDMA-044", "%d segments", len(h.Read))
		return
	}
	c := &rpcCall{xid: h.XID, frame: ev.Frame, typ: h.Type}
	lists := h.Lists
	lists.Write, lists.Reply, lists.HasReply = nil, nil, false
	c.offer(&lists)
	m.sides[ev.Dir].add(c)
}

// ccpCall judges a call of CONF_RDMA, and takes its sizes: three words (RFC 5666 Section 6).
func (m *rpcMachine) ccpCall(ev *decode.Event) {
	if ev.RPC.Prog != progCCP || ev.RPC.Proc != 1 {
		return
	}
	m.old = true
	if n := len(ev.Message.Payload); n > 1024 {
		m.violate("RPCRDMA-095", "%d octets", n)
	}
	if m.calls > 1 && !m.blind() {
		m.violate("RPCRDMA-094", "CONF_RDMA is call %d", m.calls)
	}
	if b := ev.RPC.Body; len(b) >= 12 {
		m.limits[1-ev.Dir] = int(min(binary.BigEndian.Uint32(b[4:]), 1<<30))
	}
}

// ccpReply takes the answer of the server: the size of calls.
func (m *rpcMachine) ccpReply(ev *decode.Event, c *rpcCall) {
	if c.prog != progCCP || c.proc != 1 || ev.RPC.Reply.Denied || ev.RPC.Reply.Accept != xdr.Success {
		return
	}
	if n := len(ev.Message.Payload); n > 1024 {
		m.violate("RPCRDMA-095", "an answer of %d octets", n)
	}
	if b := ev.RPC.Body; len(b) >= 12 {
		m.limits[1-ev.Dir] = int(min(binary.BigEndian.Uint32(b), 1<<30))
	}
}
