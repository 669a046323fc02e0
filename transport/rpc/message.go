package rpc

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"runtime/debug"
	"sync"

	"github.com/stag-rdma/stag/xdr"
)

// ErrNotACall: the octets cannot be decoded as an RPC call. Over RDMA the answer is ERR_CHUNK; over
// TCP there is none.
var ErrNotACall = errors.New("transport: not an RPC call")

// Parse decodes the RPC header of msg, and a view of its arguments, into r. If the call is refused
// before its program is looked at, the reply is in resp; with anyCred, credentials are no reason, except AUTH_TLS,
// which speaks of this connection and not of who calls.
func (r *Request) Parse(msg []byte, anyCred bool, resp *Response) error {
	if _, typ, ok := xdr.PeekXID(msg); !ok || typ != xdr.MsgCall {
		return ErrNotACall
	}
	d := xdr.NewDecoder(msg)
	err := r.CallHeader.Parse(&d)
	r.Args = d.Rest()
	if err == nil && r.RPCVers == xdr.RPCVersion && anyCred && r.Cred.Flavor != xdr.AuthTLS {
		return nil
	}
	if h, refused := r.Refusal(err); refused {
		resp.Refuse(h)
	} else if err != nil {
		return ErrNotACall
	}
	return nil
}

// ServeMessage answers one RPC call message without a connection: for tests of handlers, and for
// other framings. It appends the reply message to b, with the data of AppendItem and its pad in
// place. It returns false if msg gets no reply, because it is not a call (RFC 5531 Section 9), or the handler drops it. It
// borrows msg. If the handler panics, the reply is SYSTEM_ERR.
func ServeMessage(ctx context.Context, h Handler, from net.Addr, msg, b []byte) ([]byte, bool) {
	m := messages.Get().(*message)
	defer m.end()
	m.resp.Reset()
	m.req.RemoteAddr, m.req.Network = from, "message"
	if m.req.Parse(msg, false, &m.resp) != nil {
		return b, false
	}
	m.serve(ctx, h)
	if m.resp.dropped {
		return b, false
	}
	return m.resp.AppendReply(b, m.req.XID), true
}

// messages are reused: two thirds of what a short call would allocate.
var messages = sync.Pool{New: func() any { return new(message) }}

type message struct {
	req  Request
	resp Response
}

// serve runs the handler, unless the call was refused.
func (m *message) serve(ctx context.Context, h Handler) {
	defer func() {
		if v := recover(); v != nil { // a bug must not stay hidden because nobody asked for a log
			fmt.Fprintf(os.Stderr, "rpc: handler panicked in call 0x%08x of program %d, procedure %d: %v\n%s",
				m.req.XID, m.req.Prog, m.req.Proc, v, debug.Stack())
			m.resp.Fail(xdr.SystemErr)
		}
	}()
	if !m.resp.refused {
		h.ServeRPC(ctx, &m.req, &m.resp)
	}
}

func (m *message) end() {
	m.resp.Lent.Release()
	m.req = Request{}
	messages.Put(m)
}
