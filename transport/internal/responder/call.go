package responder

import (
	"sync"

	"github.com/stag-rdma/stag/chunks"
	"github.com/stag-rdma/stag/internal/list"
	"github.com/stag-rdma/stag/rdmap/verbs"
	"github.com/stag-rdma/stag/rpcrdma"
	"github.com/stag-rdma/stag/transport/internal/admit"
	"github.com/stag-rdma/stag/transport/internal/execute"
	"github.com/stag-rdma/stag/transport/internal/memory"
	"github.com/stag-rdma/stag/transport/rpc"
	"github.com/stag-rdma/stag/xdr"
)

// Call is one call at the responder's end, from its Send until the reply was sent: what came, what is to be done, and what
// leaves. It is reused. One goroutine at a time owns it: the one that reads, then the one that runs the handler, then
// whichever completes the last work request of the reply.
type Call struct {
	rc   *Responder
	live bool // counted in Responder.running
	wire
	Job
	reply
}

// wire is what the client has sent, and where its octets are. Those that came inline are a view of the Send, which is lent
// until the upcall returns. Whatever makes the call outlive that copies them first, to one of two places: Own and pull to
// buf, where the message is whole and contiguous, keepPayload to held, where it stays without what the client has in chunks.
type wire struct {
	In   rpcrdma.Inbound
	buf  *memory.Buffer
	size int // octets of the message in buf
	held *memory.Buffer
	sink memory.Registration // buf while RDMA Reads fill it
	part int                 // octets of those that pulledPart completes
	away deferral            // of data that are still at the client
}

// Job is what the server above does for a call, and what the call holds of the budget meanwhile.
type Job struct {
	Req    rpc.Request
	Resp   rpc.Response
	Traits rpc.Traits      // of Req
	Place  list.Node[Call] // among those that wait to be pulled, or for a worker

	hold admit.Ticket
	next step // when hold has what the call waits for
	room int  // octets of hold for the reply
	work int  // octets of hold for the handler
	most int  // octets of results beyond a Send that the client has room for
}

// step is what a call does next that waits for memory.
type step uint8

const (
	// toDispatch: it is complete, and goes to the server above. That may ask for more, and the call waits again (Charge).
	toDispatch step = iota
	// toPull: it holds what its whole message and its reply take. Its chunks are pulled, then it is dispatched.
	toPull
	// toHand: it holds the same, but goes to the server above at once, whose handler pulls.
	toHand
)

// NewCall returns an empty call.
func (rc *Responder) NewCall() *Call {
	x, _ := callPool.Get().(*Call)
	if x == nil {
		x = new(Call)
	}
	x.rc, x.hold = rc, rc.Peer.Ticket()
	return x
}

// callPool has the calls of all connections, because most of these rest.
var callPool sync.Pool

// maxKeptHead is the memory a call keeps for Sends.
const maxKeptHead = 8 << 10

// recycle drops all views, keeps modest memory, and gives the call to the next one.
func (x *Call) recycle() {
	x.away.reset()
	// Most calls are answered without chunks. Then In and out hold nothing that the next call has to be kept from, since
	// Receive and Reply reset them first.
	if !x.In.Header.Lists.Empty() || x.In.Done != nil || x.In.Err != nil || len(x.out.Expose) > 0 || x.out.Err != nil {
		x.In.Reset()
		x.out.Reset()
	}
	clear(x.item)
	if len(x.wrs) > 1 || cap(x.head) > maxKeptHead {
		clear(x.wrs) // otherwise it is the Send of x.head
	}
	x.rc, x.live, x.protected, x.size = nil, false, false, 0
	x.item, x.wrs = x.item[:0], x.wrs[:0]
	x.hold, x.sink, x.next = admit.Ticket{}, memory.Registration{}, toDispatch
	x.room, x.most, x.work, x.part = 0, 0, 0, 0
	x.msg = chunks.Message{}
	x.Req = rpc.Request{}
	if cap(x.head) > maxKeptHead {
		x.head = nil
	}
	callPool.Put(x)
}

// Message returns the RPC message: a view of the Send as long as that is lent, otherwise of buf or held.
func (x *Call) Message() []byte {
	if x.buf != nil {
		return x.buf.Data[:x.size]
	}
	return x.In.Payload
}

// Own copies an inline message, so that the call can outlive the upcall. The copy of a large one counts
// in the budget until the call is over: while that is overdrawn, later calls wait.
func (x *Call) Own() {
	if x.buf != nil || x.held != nil {
		return
	}
	if n := len(x.In.Payload); n > admit.Page && x.hold.Octets() < n {
		x.hold.Add(n) // not asked for: the octets exist already, in the memory of the connection
	}
	x.buf, x.size = memory.Shared.Get(len(x.In.Payload)), len(x.In.Payload)
	copy(x.buf.Data, x.In.Payload)
	d := xdr.NewDecoder(x.Message())
	_ = x.In.RPC.Parse(&d) // parsed without error before
	x.In.Args, x.In.Payload = d.Rest(), nil
}

// keepPayload copies the inline octets of a call that has data in chunks. They take no more than a Send, and so do not count
// beyond what the call has asked for.
func (x *Call) keepPayload() {
	if x.buf != nil || x.held != nil {
		return
	}
	x.held = memory.Shared.Get(len(x.In.Payload))
	x.In.Payload = x.held.Data[:copy(x.held.Data, x.In.Payload)]
}

// dropPayload releases the inline octets, which were copied to their place.
func (x *Call) dropPayload() {
	x.In.Payload = nil
	if x.held != nil {
		x.held.Release()
		x.held = nil
	}
}

// releaseMessage releases the memory of the message, which nobody reads any more, and forgets all views of it.
func (x *Call) releaseMessage() {
	if x.buf != nil {
		x.buf.Release()
		x.buf = nil
	}
	x.dropPayload()
	x.In.RPC = xdr.CallHeader{}
	x.In.Args = nil
}

// ReleaseArgs releases the memory of a call that will be answered. It keeps what it holds for its reply.
func (x *Call) ReleaseArgs() {
	x.releaseMessage()
	if x.room > 0 {
		x.hold.Add(min(x.room-x.hold.Octets(), 0))
	} else if !x.hold.Empty() {
		x.hold.Release()
	}
}

// SetRequest fills the handler's view of the call.
func (x *Call) SetRequest() {
	r := &x.Req // field by field: it is large
	r.CallHeader = x.In.RPC
	r.Args, r.RemoteAddr, r.Network = x.In.Args, x.rc.addr, "rdma"
	r.TLS = x.rc.Protection
	r.Deferred, r.Backward = nil, x.rc.Backward
	if x.away.active {
		x.Req.Deferred = &x.away
	}
}

// Unread reports whether the server above has not read the whole call.
func (x *Call) Unread() bool { return x.buf != nil || x.held != nil }

// Identify keeps what finds the reply to the call, when its message is gone.
func (x *Call) Identify() {
	h := &x.In.RPC
	x.Req.XID, x.Req.Prog, x.Req.Vers, x.Req.Proc = h.XID, h.Prog, h.Vers, h.Proc
	x.protected = h.Cred.Protected()
}

// Charge takes the n octets that the handler of x needs, and those that protect its reply, or refuses the call for good. If
// it has to wait, it returns false, and dispatches the call again later. Meanwhile the call holds what it is made of; should
// all others that hold something wait too, the first goes on.
func (x *Call) Charge(n int) bool {
	if x.Req.GSS != nil {
		n += execute.Protecting(&x.Req, x.rc.cfg.Binding, x.room, x.rc.MostReply(x))
	}
	if n <= max(x.work, admit.Page) || x.Resp.Refused() || x.rc.gate.Refuses(&x.Req, &x.Resp, n+x.hold.Octets()) {
		return true
	}
	x.work = n // so that it is not taken again when the call comes here again
	if x.hold.Try(n, false) {
		return true
	}
	x.Own() // before anybody can grant it: from then on the call may be elsewhere
	x.next = toDispatch
	if !x.hold.Acquire(n, false, x) {
		return false
	}
	x.SetRequest()
	return true
}

// reckon notes what the client has room for in the reply, and returns how many octets a call holds beside its message: of
// the reply beyond a Send, what the client has room for, or less if the binding knows better; and what many segments take.
func (rc *Responder) reckon(x *Call) int {
	h := &x.In.Header
	n := len(h.Read) + len(h.Reply)
	for _, w := range h.Write {
		n += len(w)
	}
	segments := max(n-fewSegments, 0) * segmentCost
	if len(h.Write) == 0 && !h.HasReply {
		return segments
	}
	most := rc.cfg.MaxPayload
	room := segmentOctets(h.Reply, most)
	for _, w := range h.Write {
		room = min(room+segmentOctets(w, most), most)
	}
	if call := &x.In.RPC; !call.Cred.Protected() { // otherwise the arguments may be encrypted
		if rest, item, ok := rc.cfg.Binding.MaxResults(call.Prog, call.Vers, call.Proc, x.In.Args); ok {
			room = min(room, rest+item)
		}
	}
	x.most = room
	if x.room = room; room <= admit.Page { // too little to be counted
		x.room = 0
	}
	return x.room + segments
}

// A call that has more than fewSegments segments takes memory for each of the others, however short they are: for
// its work request, its place in the queues of the engine, and what was decoded. Measured: 700 octets.
const (
	fewSegments = 16
	segmentCost = 1 << 10
)

// segmentOctets returns the octets of a chunk, at most most. They are what a peer claims: the sum must not overflow.
func segmentOctets(c chunks.WriteChunk, most int) int {
	n := 0
	for i := range c {
		if n += int(min(c[i].Length, uint32(most))); n >= most {
			return most
		}
	}
	return n
}

// MostReply returns how many octets the message of the reply to x may have. If it is larger, the client has no room for
// it: see TooLarge.
func (rc *Responder) MostReply(x *Call) int {
	if rc.exposes != nil { // the client reads it
		return rc.cfg.MaxPayload
	}
	const headRoom = 1 << 10 // for the header of the reply, with the largest verifier
	rc.mu.Lock()
	defer rc.mu.Unlock()
	return min(x.most+rc.resp.Config().SendSize+headRoom, rc.cfg.MaxPayload)
}

// TooLarge answers x, whose reply is larger than MostReply.
func (rc *Responder) TooLarge(x *Call) { rc.refuseChunk(x, rpcrdma.ErrNoFit) }

// mover tells the gate what a connection moves, and ends it.
type mover Responder

var _ admit.Mover = (*mover)(nil)

// Mover is for Gate.Enter.
func (rc *Responder) Mover() admit.Mover { return (*mover)(rc) }

// Moved implements admit.Mover.
func (m *mover) Moved(f admit.Flow) uint64 {
	if m.Conn == nil {
		return 0
	}
	switch s := m.Conn.Stats(); f {
	case admit.Pulling:
		return s.ReadOctetsIn
	case admit.Arriving:
		return s.OctetsIn
	default:
		return s.OctetsOut
	}
}

// Cut ends the connection.
func (m *mover) Cut(f admit.Flow) {
	err := ErrPullTimeout
	if f == admit.Arriving {
		err = verbs.ErrPartialFPDU
	} else if f == admit.Leaving {
		err = admit.ErrUnread
	}
	go m.Conn.Abort(err) // Cut must not block
}

// ErrPullTimeout ends connections whose peers keep calls waiting.
var ErrPullTimeout error = &rpc.SlowPeerError{What: "does not answer RDMA Reads of the chunks that it offered, or too slowly"}
