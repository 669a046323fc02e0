package judge

import (
	"slices"

	"github.com/stag-rdma/stag/chunks"
	"github.com/stag-rdma/stag/conformance/internal/decode"
	"github.com/stag-rdma/stag/rpcrdma"
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
