package proxy

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"time"

	"github.com/stag-rdma/stag/nfsdemo/nfs3"
	"github.com/stag-rdma/stag/transport"
	"github.com/stag-rdma/stag/transport/rpc"
	"github.com/stag-rdma/stag/xdr"
	"go.uber.org/zap"
)

// answerTime is how long a server that owes answers may give none. Clients that still want one ask again, over another
// connection.
const answerTime = 3 * time.Minute

// client is a client of a Proxy, and the Handler of its calls.
type client struct {
	p     *Proxy
	ctx   context.Context // takes calls until it ends
	leave context.CancelFunc
	over  chan struct{} // closed when it has ended

	dial sync.Once
	to   Server        // nil: it cannot be reached
	back *rpc.Backward // to the client

	mu      sync.Mutex
	pending map[uint32]struct{} // XIDs that the server has not answered
	late    *time.Timer         // runs while there are any
}

// Describe implements rpc.Handler. Calls that change something are in the cache of duplicates here: servers that look at the
// port of a client would not know a call again that comes over another connection.
func (c *client) Describe(req *rpc.Request) rpc.Traits {
	t := rpc.Traits{Blocks: true}
	if req.Prog == nfs3.Program && req.Vers == nfs3.Version {
		t.Changes, t.Once = nfs3.Proc(req.Proc).Changes(req.Args)
	}
	if rest, _ := c.room(req); rest < 0 && req.Network == "tcp" { // on RDMA the client says how much it takes
		t.Memory = c.p.cfg.MaxPayload
	}
	return t
}

// room returns how many octets the results of a call may have, less those of one that may be placed, and of that. If nobody
// knows it, rest is negative: the server may answer with as much as the connection can carry.
func (c *client) room(req *rpc.Request) (rest, item int) {
	switch {
	case req.Cred.Protected():
		return -1, 0
	case req.Proc == 0 && req.Cred.Flavor != xdr.RPCSECGSS: // which NULL may establish a context of
		return 0, 0
	}
	const head = 1 << 10 // above the largest header of a reply
	limit := c.p.cfg.MaxPayload - head
	rest, item, ok := c.p.cfg.Binding.MaxResults(req.Prog, req.Vers, req.Proc, req.Args)
	if !ok || rest > limit || item > limit-rest {
		return -1, 0
	}
	return rest, item
}

// ServeRPC implements rpc.Handler. It makes the same call at the server: with its XID, credential and verifier, so that the
// server's cache of duplicates and RPCSEC_GSS work as without a proxy. The context does not matter: the server may use the
// memory of a call until it has answered, or its connection has ended.
func (c *client) ServeRPC(_ context.Context, req *rpc.Request, resp *rpc.Response) {
	if check := c.p.Check; check != nil {
		if err := check(req.RemoteAddr, &req.CallHeader); err != nil {
			c.p.cfg.Logger.Warn("proxy: call refused", zap.Stringer("client", req.RemoteAddr), zap.Error(err))
			c.hangUp(resp)
			return
		}
	}
	c.dial.Do(func() { c.connect(req) })
	if c.to == nil {
		c.away(req, resp)
		return
	}
	if !c.begin(req.XID) { // it was sent again on the same connection: the first one will be answered
		resp.Drop()
		return
	}
	call := callOf(req)
	call.MaxResults = -1
	if _, rdma := c.to.(*transport.Client); rdma {
		rest, item := c.room(req)
		call.MaxResults = rest
		if item > 0 {
			call.Sink = resp.Buffer(item) // zeros: the server may write less than it claims
		}
	}
	if !req.Cred.Protected() { // RFC 8166 Section 8.2.2.3: else nothing is reduced
		call.Reduce(c.p.cfg.Binding)
	}
	freed := make(chan struct{})
	call.Free = func() { close(freed) }
	var reply rpc.Reply
	err := c.to.Do(context.Background(), call, &reply)
	if err != nil {
		select {
		case <-freed:
		case <-time.After(answerTime): // the connection has ended, and does not let go of it: it is never used again
			resp.Lent.Abandon()
		}
	}
	c.end(req.XID)
	switch _, refused := errors.AsType[*rpc.RPCError](err); {
	case err == nil:
		resp.Pass(req, &reply, c.p.cfg.Binding)
	case refused:
		resp.Stat = xdr.SystemErr
	default:
		c.hangUp(resp)
	}
}

// callOf returns the same call for another connection.
func callOf(req *rpc.Request) *rpc.Call {
	return &rpc.Call{
		Prog: req.Prog, Vers: req.Vers, Proc: req.Proc, Cred: req.Cred, Verf: req.Verf, Args: req.Args,
		Resend: &rpc.Transmission{XID: req.XID},
	}
}

// connect connects to the server. When either connection ends, so does the other: a client that connects again sends its
// calls again.
func (c *client) connect(req *rpc.Request) {
	c.back = req.Backward
	ctx, cancel := context.WithTimeout(c.ctx, cmp.Or(c.p.DialTimeout, defaultDialTimeout))
	defer cancel()
	log := c.p.cfg.Logger.With(zap.Stringer("client", req.RemoteAddr))
	to, err := c.p.Dial(ctx, rpc.HandlerFunc(c.serveBack))
	if err != nil {
		c.p.failed.Add(1)
		log.Warn("proxy: the server cannot be reached", zap.Error(err))
		end := time.AfterFunc(awayTime, c.leave)
		context.AfterFunc(c.ctx, func() { end.Stop() })
		return
	}
	c.to = to
	c.late = time.AfterFunc(answerTime, func() {
		c.p.slow.Add(1)
		log.Warn("proxy: the server owes answers, and has given none for 3 minutes")
		to.Abort(&rpc.SlowPeerError{What: "has not answered calls for 3 minutes"})
	})
	c.late.Stop()
	c.p.wg.Go(func() {
		select {
		case <-to.Done():
			log.Info("proxy: the server has ended the connection", zap.Error(to.Err()))
			c.leave()
		case <-c.over:
		case <-c.p.ctx.Done():
		}
		_ = to.Close() // nothing is awaited
	})
}

// begin notes a call. It returns false if one with this XID is not answered.
func (c *client) begin(xid uint32) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, ok := c.pending[xid]; ok {
		return false
	}
	c.pending[xid] = struct{}{}
	if len(c.pending) == 1 {
		c.late.Reset(answerTime)
	}
	return true
}

// end notes an answer.
func (c *client) end(xid uint32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.pending, xid)
	c.late.Stop()
	if len(c.pending) > 0 {
		c.late.Reset(answerTime)
	}
}

// hangUp ends the connection of the client, who sees that instead of an answer.
func (c *client) hangUp(resp *rpc.Response) {
	c.leave()
	resp.Drop()
}

// serveBack passes a call of the server on to the client. If the server makes one, we believe that the client accepts it (RFC
// 8167 Section 5.3): the server is the upper layer that was told.
func (c *client) serveBack(ctx context.Context, req *rpc.Request, resp *rpc.Response) {
	c.back.Enable()
	var reply rpc.Reply
	if err := c.back.Do(ctx, callOf(req), &reply); err != nil {
		resp.Stat = xdr.SystemErr
		return
	}
	resp.Pass(req, &reply, c.p.cfg.Binding)
}
