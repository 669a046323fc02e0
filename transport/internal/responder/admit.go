package responder

import (
	"github.com/stag-rdma/stag/chunks"
	"github.com/stag-rdma/stag/rdmap/verbs"
	"github.com/stag-rdma/stag/rpcrdma"
	"github.com/stag-rdma/stag/transport/internal/admit"
	"github.com/stag-rdma/stag/transport/internal/execute"
	"github.com/stag-rdma/stag/transport/rpc"
)

// admit takes n octets for a call, which is to be pulled if pull is set. If there are too few, it copies
// what the call needs out of the upcall and returns false; then continues the call later.
func (rc *Responder) admit(x *Call, n int, pull bool, then func(x *Call)) bool {
	if x.hold.Try(n, pull) {
		return true
	}
	x.keepPayload()
	x.then = then
	return x.hold.Acquire(n, pull, x)
}

// Granted continues a call that had to wait.
func (x *Call) Granted() { go x.then(x) }

// dispatch passes a call to the application, once there is memory for it and its reply. A call that was
// pulled has it already: it must not wait for calls that wait for that memory.
func (rc *Responder) dispatch(x *Call, inline bool) {
	if !inline || x.buf != nil {
		rc.app.Dispatch(x, inline)
		return
	}
	n := rc.replyOctets(x) + x.segmentsCost()
	if k := len(x.In.Payload); k > admit.Page {
		n += k
	}
	if n == 0 && rc.Peer.Open() || n > 0 && x.hold.Try(n, false) {
		rc.app.Dispatch(x, true)
		return
	}
	x.Own() // the octets of the call exist already
	x.then = (*Call).redispatch
	if x.hold.Acquire(n-x.hold.Octets(), false, x) {
		rc.app.Dispatch(x, true)
	}
}

// redispatch is dispatch for a call that had to wait.
func (x *Call) redispatch() { x.rc.app.Dispatch(x, false) }

// Charge takes the n octets that the handler of x needs, and those that protect its reply, or refuses the call for good. If it has to wait, it returns
// false, and dispatches the call again later. Meanwhile the call holds what it is made of; should all others that hold
// something wait too, the first goes on.
func (x *Call) Charge(n int) bool {
	if x.Req.GSS != nil {
		n += execute.Protecting(&x.Req, x.rc.cfg.Binding, x.room, x.rc.MostReply(x))
	}
	if n <= max(x.work, admit.Page) || x.Resp.Refused() || x.rc.gate.Refuses(&x.Req, &x.Resp, n+x.hold.Octets()) {
		return true
	}
	x.work = n
	if x.hold.Try(n, false) {
		return true
	}
	x.Own()
	x.then = (*Call).redispatch
	if !x.hold.Acquire(n, false, x) {
		return false
	}
	x.SetRequest()
	return true
}

// replyOctets returns how many octets beyond a Send the reply to a call may take: what the client has room
// for, or less if the binding knows better.
func (rc *Responder) replyOctets(x *Call) int {
	h := &x.In.Header
	if len(h.Write) == 0 && !h.HasReply {
		return 0
	}
	most := rc.cfg.MaxPayload
	room := segmentOctets(h.Reply, most)
	for _, w := range h.Write {
		room = min(room+segmentOctets(w, most), most)
	}
	if rpc := &x.In.RPC; !rpc.Cred.Protected() { // otherwise the arguments may be encrypted
		if rest, item, ok := rc.cfg.Binding.MaxResults(rpc.Prog, rpc.Vers, rpc.Proc, x.In.Args); ok {
			room = min(room, rest+item)
		}
	}
	x.most = room
	if room <= admit.Page {
		room = 0
	}
	x.room = room
	return room
}

// headRoom is for the header of a reply, with the largest verifier.
const headRoom = 1 << 10

// MostReply returns how many octets the message of the reply to x may have. If it is larger, the client has no room for
// it: see TooLarge.
func (rc *Responder) MostReply(x *Call) int {
	if rc.profile.withholds() { // the client reads it
		return rc.cfg.MaxPayload
	}
	rc.mu.Lock()
	defer rc.mu.Unlock()
	return min(x.most+rc.resp.Config().SendSize+headRoom, rc.cfg.MaxPayload)
}

// MostBackward returns how many octets a backward call may have: it goes inline.
func (rc *Responder) MostBackward() int {
	rc.mu.Lock()
	defer rc.mu.Unlock()
	return rc.resp.Config().SendSize
}

// TooLarge answers x, whose reply is larger than MostReply.
func (rc *Responder) TooLarge(x *Call) { rc.refuseChunk(x, rpcrdma.ErrNoFit) }

// A call that has more than fewSegments segments takes memory for each of the others, however short they are: for
// its work request, its place in the queues of the engine, and what was decoded. Measured: 700 octets.
const (
	fewSegments = 16
	segmentCost = 1 << 10
)

// segmentsCost returns what a call takes for its segments, in octets.
func (x *Call) segmentsCost() int {
	h := &x.In.Header
	n := len(h.Read) + len(h.Reply)
	for _, w := range h.Write {
		n += len(w)
	}
	return max(n-fewSegments, 0) * segmentCost
}

// segmentOctets returns the octets of a chunk, at most most.
func segmentOctets(c chunks.WriteChunk, most int) int {
	n := 0
	for i := range c {
		if n += int(min(c[i].Length, uint32(most))); n >= most {
			return most
		}
	}
	return n
}

// charge notes that n octets of a reply's borrowed memory are being sent.
func (x *Call) charge(n int) {
	x.rc.gate.Awaits(&x.hold, admit.Leaving, max(n-x.room, 0))
}

// Mover tells the gate what the connection moves, and ends it.
func (rc *Responder) Mover() admit.Mover { return (*mover)(rc) }

// mover tells what a connection moves.
type mover Responder

var _ admit.Mover = (*mover)(nil)

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
	go m.Conn.Abort(err)
}

// partialFPDU takes the octets that the connection holds for an FPDU that does not go on, and returns them.
func (rc *Responder) partialFPDU(n int) {
	if n == 0 {
		rc.partial.Release()
		return
	}
	if more := n - rc.partial.Octets(); more < 0 {
		rc.partial.Add(more)
	} else {
		rc.gate.Awaits(&rc.partial, admit.Arriving, more)
	}
}

// ErrPullTimeout ends connections whose peers keep calls waiting.
var ErrPullTimeout error = &rpc.SlowPeerError{What: "does not answer RDMA Reads of the chunks that it offered, or too slowly"}
