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

// Call is one call at the responder's end, from its Send until the reply was sent. It is
// reused. One goroutine at a time owns it.
type Call struct {
	rc   *Responder
	In   rpcrdma.Inbound
	out  rpcrdma.Reply
	msg  chunks.Message
	item []chunks.Item
	wrs  []verbs.WR
	head []byte // the Send of the reply
	rpc  []byte // the RPC reply header

	Req    rpc.Request
	Resp   rpc.Response
	Traits rpc.Traits // of Req, for the server above

	buf  *memory.Buffer      // the message, if it is not a view of the Send
	size int                 // octets of the message in buf
	held *memory.Buffer      // inline octets of a call that waits to be pulled, or came aligned
	exp  exposure            // of the reply
	away deferral            // of data that are still at the client
	sink memory.Registration // buf while RDMA Reads fill it
	hold admit.Ticket
	room int // octets of hold for the reply
	work int // octets of hold for the handler
	most int // octets of results beyond a Send that the client has room for
	then func(x *Call)
	bulk bulkReply
	live bool // counted in Responder.running

	Place     list.Node[Call] // among those that wait for a worker, or to be read as records
	Entry     *execute.Entry  // there, of a call that must not run twice
	protected bool            // by RPCSEC_GSS: nothing may be reduced
	answer    bool            // not a call: buf is the reply to a backward call
}

// maxKeptHead is the memory a call keeps for Sends.
const maxKeptHead = 8 << 10

// callPool is a stock of calls.
type callPool struct{ pool sync.Pool }

// Calls are reused.
var Calls callPool

func (p *callPool) Get(rc *Responder) *Call {
	x, _ := p.pool.Get().(*Call)
	if x == nil {
		x = new(Call)
	}
	x.rc, x.hold = rc, rc.Peer.Ticket()
	return x
}

func (p *callPool) put(x *Call) {
	x.reset()
	p.pool.Put(x)
}

// reset drops all views and keeps modest memory.
func (x *Call) reset() {
	x.away.reset()
	if !x.plain() {
		x.In.Reset()
		x.out.Reset()
	}
	clear(x.item)
	if len(x.wrs) > 1 || cap(x.head) > maxKeptHead {
		clear(x.wrs) // otherwise it is the Send of x.head
	}
	x.rc, x.Entry, x.live, x.protected, x.size = nil, nil, false, false, 0
	x.item, x.wrs, x.then = x.item[:0], x.wrs[:0], nil
	x.hold, x.sink, x.room = admit.Ticket{}, memory.Registration{}, 0
	x.most, x.work = 0, 0
	x.msg = chunks.Message{}
	x.Req = rpc.Request{}
	if cap(x.head) > maxKeptHead {
		x.head = nil
	}
}

// plain reports whether the call was answered without chunks, as most are: then in and out hold
// nothing that the next call has to be kept from, since Receive and Reply reset them first.
func (x *Call) plain() bool {
	return x.In.Header.Lists.Empty() && x.In.Done == nil && x.In.Err == nil && len(x.out.Expose) == 0 && x.out.Err == nil
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
		x.hold.Add(n)
	}
	x.buf, x.size = memory.Shared.Get(len(x.In.Payload)), len(x.In.Payload)
	copy(x.buf.Data, x.In.Payload)
	d := xdr.NewDecoder(x.Message())
	_ = x.In.RPC.Parse(&d) // parsed without error before
	x.In.Args, x.In.Payload = d.Rest(), nil
}

// keepPayload copies the inline octets of a call that cannot be pulled yet.
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

// Header returns the header of the call, and args its arguments. Both are lent until the message is released.
func (x *Call) Header() *xdr.CallHeader { return &x.In.RPC }

// Args returns the arguments of the call, lent as its header is.
func (x *Call) Args() []byte { return x.In.Args }

// ReplyOf returns the message of n octets in b, the reply to a backward call, for a queue of calls.
func (rc *Responder) ReplyOf(b *memory.Buffer, n int) *Call {
	return &Call{rc: rc, buf: b, size: n, answer: true}
}

// Drop releases the message if it is such a reply.
func (x *Call) Drop() {
	if x.answer {
		x.buf.Release()
		x.buf = nil
	}
}
