package transport

import (
	"sync"

	"github.com/stag-rdma/stag/chunks"
	"github.com/stag-rdma/stag/rdmap/verbs"
	"github.com/stag-rdma/stag/rpcrdma"
	"github.com/stag-rdma/stag/transport/internal/admit"
	"github.com/stag-rdma/stag/transport/internal/execute"
	"github.com/stag-rdma/stag/transport/internal/mem"
	"github.com/stag-rdma/stag/transport/internal/register"
	"github.com/stag-rdma/stag/transport/rpc"
	"github.com/stag-rdma/stag/xdr"
)

// exchange is one call at the responder's end, from its Send until the reply was sent. It is
// reused. One goroutine at a time owns it.
type exchange struct {
	rc   *respConn
	in   rpcrdma.Inbound
	out  rpcrdma.Reply
	msg  chunks.Message
	item []chunks.Item
	wrs  []verbs.WR
	head []byte // the Send of the reply
	rpc  []byte // the RPC reply header

	req  rpc.Request
	resp rpc.Response

	buf  *mem.Buffer           // the message, if it is not a view of the Send
	size int                   // octets of the message in buf
	held *mem.Buffer           // inline octets of a call that waits to be pulled, or came aligned
	exp  exposure              // of the reply
	away deferral              // of data that are still at the client
	sink register.Registration // buf while RDMA Reads fill it
	hold admit.Ticket
	room int // octets of hold for the reply
	then func(x *exchange)
	bulk bulkReply
	live bool // counted in respConn.running

	next      *exchange      // in recordConn's queue
	once      *execute.Entry // there, of a call that must not run twice
	protected bool           // by RPCSEC_GSS: nothing may be reduced
	answer    bool           // not a call: buf is the reply to a backward call
}

// maxKeptHead is the memory an exchange keeps for Sends.
const maxKeptHead = 8 << 10

// exchangePool is a stock of exchanges.
type exchangePool struct{ pool sync.Pool }

var exchanges exchangePool

func (p *exchangePool) get(rc *respConn) *exchange {
	x, _ := p.pool.Get().(*exchange)
	if x == nil {
		x = new(exchange)
	}
	x.rc, x.hold = rc, rc.peer.Ticket()
	return x
}

func (p *exchangePool) put(x *exchange) {
	x.reset()
	p.pool.Put(x)
}

// reset drops all views and keeps modest memory.
func (x *exchange) reset() {
	x.away.reset()
	if !x.plain() {
		x.in.Reset()
		x.out.Reset()
	}
	clear(x.item)
	if len(x.wrs) > 1 || cap(x.head) > maxKeptHead {
		clear(x.wrs) // otherwise it is the Send of x.head
	}
	x.rc, x.next, x.once, x.live, x.protected, x.size = nil, nil, nil, false, false, 0
	x.item, x.wrs, x.then = x.item[:0], x.wrs[:0], nil
	x.hold, x.sink, x.room = admit.Ticket{}, register.Registration{}, 0
	x.msg = chunks.Message{}
	x.req = rpc.Request{}
	if cap(x.head) > maxKeptHead {
		x.head = nil
	}
}

// plain reports whether the call was answered without chunks, as most are: then in and out hold
// nothing that the next call has to be kept from, since Receive and Reply reset them first.
func (x *exchange) plain() bool {
	return x.in.Header.Lists.Empty() && x.in.Done == nil && x.in.Err == nil && len(x.out.Expose) == 0 && x.out.Err == nil
}

// message returns the RPC message: a view of the Send as long as that is lent, otherwise of buf or held.
func (x *exchange) message() []byte {
	if x.buf != nil {
		return x.buf.Data[:x.size]
	}
	return x.in.Payload
}

// own copies an inline message, so that the call can outlive the upcall. The copy of a large one counts
// in the budget until the call is over: while that is overdrawn, later calls wait.
func (x *exchange) own() {
	if x.buf != nil || x.held != nil {
		return
	}
	if n := len(x.in.Payload); n > DefaultInlineSize && x.hold.Octets() < n {
		x.hold.Add(n)
	}
	x.buf, x.size = mem.Shared.Get(len(x.in.Payload)), len(x.in.Payload)
	copy(x.buf.Data, x.in.Payload)
	d := xdr.NewDecoder(x.message())
	_ = x.in.RPC.Parse(&d) // parsed without error before
	x.in.Args, x.in.Payload = d.Rest(), nil
}

// keepPayload copies the inline octets of a call that cannot be pulled yet.
func (x *exchange) keepPayload() {
	if x.buf != nil || x.held != nil {
		return
	}
	x.held = mem.Shared.Get(len(x.in.Payload))
	x.in.Payload = x.held.Data[:copy(x.held.Data, x.in.Payload)]
}

// dropPayload releases the inline octets, which were copied to their place.
func (x *exchange) dropPayload() {
	x.in.Payload = nil
	if x.held != nil {
		x.held.Release()
		x.held = nil
	}
}
