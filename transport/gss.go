package transport

import (
	"bytes"
	"context"
	"errors"
	"sync"

	"github.com/stag-rdma/stag/internal/setting"
	"github.com/stag-rdma/stag/transport/gss"
	"github.com/stag-rdma/stag/transport/internal/memory"
	"github.com/stag-rdma/stag/transport/internal/requester"
	"github.com/stag-rdma/stag/transport/rpc"
	"github.com/stag-rdma/stag/xdr"
)

// GSS switches on RPCSEC_GSS (RFC 2203), over RDMA and TCP. Under the services integrity and privacy nothing is reduced
// (RFC 8166 Section 8.2.2.3): what does not fit a Send travels as a whole, in a position-zero Read chunk or a Reply chunk.
type GSS struct {
	// Accept, on a server, begins the acceptor's end of a context. Calls then have rpc.Request.GSS, unless they use other
	// credentials, about which the handler decides. It does not go with AnyCred.
	Accept func() gss.Handshake
	// Client, on a client, has the context for calls whose Cred is RPCSECGSS without a body.
	Client *gss.Client
}

func (g *GSS) server() *gss.Server {
	if g.Accept == nil {
		return nil
	}
	return gss.NewServer(g.Accept)
}

func (c *Config) checkGSS() error {
	if c.GSS.Accept != nil && c.AnyCred {
		return setting.Error("GSS.Accept with AnyCred, which would pass what nobody has verified")
	}
	return nil
}

// fillListener is fill for a Listener. It refuses contexts where calls run elsewhere: whoever sees them there would take
// them for verified.
func (c *Config) fillListener() (*Config, error) {
	f, err := c.fill()
	if err == nil && f.GSS.Accept != nil {
		err = ofTransport(setting.Error("GSS.Accept for a listener: only Server has it"))
	}
	return f, err
}

// maxContexts is how many contexts one call tries: one may have ended meanwhile at the server.
const maxContexts = 3

// protect makes a call by means of do, which is Do of a connection, in the context of g.
func (g *GSS) protect(ctx context.Context, call *rpc.Call, reply *rpc.Reply, cfg *Config, do func(context.Context, *rpc.Call, *rpc.Reply) error) error {
	reply.Release()
	if g.Client == nil {
		requester.Freed(call)
		return &rpc.RPCError{Reason: rpc.ReasonBadCall, Err: setting.Error("a credential of RPCSEC_GSS without a body, and no GSS.Client")}
	}
	if err := requester.Check(ctx, call, cfg.MaxPayload-gss.MaxOverhead); err != nil {
		requester.Freed(call)
		return err
	}
	free := lastFree{user: call.Free}
	defer free.end()
	ex := func(ctx context.Context, cred xdr.Auth, args []byte) (h xdr.ReplyHeader, res []byte, err error) {
		var r rpc.Reply
		defer r.Release()
		null := rpc.Call{Prog: call.Prog, Vers: call.Vers, Cred: cred, Args: args, MaxResults: gss.MaxToken + gss.MaxOverhead}
		if err = do(ctx, &null, &r); err == nil {
			h, res = r.Header, bytes.Clone(r.Results)
			h.Verf.Body = bytes.Clone(h.Verf.Body)
		}
		return h, res, err
	}
	for range maxContexts - 1 {
		stale, err := g.once(ctx, call, reply, cfg, ex, do, &free)
		if !stale {
			return err
		}
		reply.Release()
	}
	_, err := g.once(ctx, call, reply, cfg, ex, do, &free)
	return err
}

// once makes the call in one context. stale says that the server does not have that any more, and has not run the call.
func (g *GSS) once(
	ctx context.Context, call *rpc.Call, reply *rpc.Reply, cfg *Config, ex gss.Exchange,
	do func(context.Context, *rpc.Call, *rpc.Reply) error, free *lastFree,
) (stale bool, err error) {
	out, err := g.Client.Begin(ctx, ex)
	if err != nil {
		_, lost := errors.AsType[*rpc.OpError](err)
		if _, refused := errors.AsType[*rpc.RPCError](err); lost || refused {
			return false, err // by the connection, when the context was to be made
		}
		return false, &rpc.RPCError{Reason: rpc.ReasonContext, Err: err}
	}
	defer out.End()
	c := *call
	c.Cred, c.Verf = out.Cred()
	c.Sign, c.Free = out.Sign, nil
	whole := g.Client.Service() != gss.None
	if whole {
		n := requester.Size(call)
		plain, args := memory.Shared.Get(n), memory.Shared.Get(n+gss.MaxOverhead)
		defer plain.Release()
		defer args.Release()
		c.Args = out.AppendArgs(args.Data[:0], requester.AppendArgs(call, plain.Data[:0]))
		c.Item, c.ItemMemory, c.MoreItems, c.ItemPos = nil, nil, nil, 0
		c.Sink, c.SinkMemory, c.MoreSinks = nil, nil, nil
		if most := requester.MostReply(call, cfg.MaxPayload); c.MaxResults >= 0 { // whose results come with their sinks
			c.MaxResults = min(most+gss.MaxOverhead, cfg.MaxPayload-requester.HeadRoom)
		}
	} else if call.Free != nil {
		c.Free = free.lend()
	}
	if err := do(ctx, &c, reply); err != nil {
		return false, err
	}
	if out.Stale(&reply.Header) {
		return true, nil
	}
	res, err := out.Open(&reply.Header, reply.Results)
	if err != nil {
		err = &rpc.RPCError{XID: reply.Header.XID, Reason: rpc.ReasonBadReply, Err: err}
		reply.Release()
		return false, err
	}
	reply.Results = res
	if !whole {
		return false, nil
	}
	c = *call
	c.Cred = xdr.Auth{} // the results are plain now
	return false, requester.TakeItem(reply, &c, cfg.Binding)
}

// lastFree calls the Free of a call once, when the last of its transmissions is over, and the call.
type lastFree struct {
	user func()

	mu   sync.Mutex
	lent bool // to a transmission
	over bool
}

// lend returns Free for the next transmission.
func (f *lastFree) lend() func() {
	f.mu.Lock()
	f.lent = true // the one before is over
	f.mu.Unlock()
	return func() {
		f.mu.Lock()
		f.lent = false
		last := f.over
		f.mu.Unlock()
		if last {
			f.user()
		}
	}
}

// end ends the call.
func (f *lastFree) end() {
	f.mu.Lock()
	f.over = true
	last := !f.lent
	f.mu.Unlock()
	if last && f.user != nil {
		f.user()
	}
}

// inContext reports whether a call is to be made in the context of GSS.Client.
func inContext(c *rpc.Call) bool { return c.Cred.Flavor == xdr.RPCSECGSS && len(c.Cred.Body) == 0 }
