package transport

import (
	"github.com/stag-rdma/stag/chunks"
	"github.com/stag-rdma/stag/rdmap/verbs"
	"github.com/stag-rdma/stag/transport/internal/admit"
	"github.com/stag-rdma/stag/transport/rpc"
)

// admit takes n octets for a call, which is to be pulled if pull is set. If there are too few, it copies
// what the call needs out of the upcall and returns false; then continues the call later.
func (rc *respConn) admit(x *exchange, n int, pull bool, then func(x *exchange)) bool {
	if x.hold.Try(n, pull) {
		return true
	}
	x.keepPayload()
	x.then = then
	return x.hold.Acquire(n, pull, x)
}

// Granted continues a call that had to wait.
func (x *exchange) Granted() { go x.then(x) }

// dispatch passes a call to the application, once there is memory for it and its reply. A call that was
// pulled has it already: it must not wait for calls that wait for that memory.
func (rc *respConn) dispatch(x *exchange, inline bool) {
	if !inline || x.buf != nil {
		rc.app.dispatch(x, inline)
		return
	}
	n := rc.replyOctets(x)
	if k := len(x.in.Payload); k > DefaultInlineSize {
		n += k
	}
	if n == 0 && rc.peer.Open() || n > 0 && x.hold.Try(n, false) {
		rc.app.dispatch(x, true)
		return
	}
	x.own() // the octets of the call exist already
	x.then = (*exchange).redispatch
	if x.hold.Acquire(n-x.hold.Octets(), false, x) {
		rc.app.dispatch(x, true)
	}
}

// redispatch is dispatch for a call that had to wait.
func (x *exchange) redispatch() { x.rc.app.dispatch(x, false) }

// replyOctets returns how many octets beyond a Send the reply to a call may take: what the client has room
// for, or less if the binding knows better.
func (rc *respConn) replyOctets(x *exchange) int {
	h := &x.in.Header
	if len(h.Write) == 0 && !h.HasReply {
		return 0
	}
	most := rc.cfg.MaxPayload
	room := segmentOctets(h.Reply, most)
	for _, w := range h.Write {
		room = min(room+segmentOctets(w, most), most)
	}
	if rpc := &x.in.RPC; !rpc.Cred.Protected() { // otherwise the arguments may be encrypted
		if rest, item, ok := rc.cfg.Binding.MaxResults(rpc.Prog, rpc.Vers, rpc.Proc, x.in.Args); ok {
			room = min(room, rest+item)
		}
	}
	if room <= DefaultInlineSize {
		room = 0
	}
	x.room = room
	return room
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
func (x *exchange) charge(n int) {
	x.rc.gate.Awaits(&x.hold, admit.Leaving, max(n-x.room, 0))
}

// respMover tells what a connection moves.
type respMover respConn

var _ admit.Mover = (*respMover)(nil)

// Moved implements admit.Mover.
func (m *respMover) Moved(f admit.Flow) uint64 {
	if m.conn == nil {
		return 0
	}
	switch s := m.conn.Stats(); f {
	case admit.Pulling:
		return s.ReadOctetsIn
	case admit.Arriving:
		return s.OctetsIn
	default:
		return s.OctetsOut
	}
}

// Cut ends the connection.
func (m *respMover) Cut(f admit.Flow) {
	err := errPullTimeout
	if f == admit.Arriving {
		err = verbs.ErrPartialFPDU
	} else if f == admit.Leaving {
		err = errUnread
	}
	go m.conn.Abort(err)
}

// halfFPDU takes the octets that the connection holds for an FPDU that does not go on, and returns them.
func (rc *respConn) halfFPDU(n int) {
	if n == 0 {
		rc.half.Release()
		return
	}
	rc.gate.Awaits(&rc.half, admit.Arriving, n-rc.half.Octets())
}

// Errors of connections whose peers keep calls waiting.
var (
	errPullTimeout error = &rpc.SlowPeerError{What: "does not answer RDMA Reads of the chunks that it offered, or too slowly"}
	errUnread            = &rpc.SlowPeerError{What: "does not read replies, or too slowly"}
	errHalfRecord        = &rpc.SlowPeerError{What: "began a record and does not finish it, or too slowly"}
)
