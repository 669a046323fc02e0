package requester

import (
	"context"
	"fmt"

	"github.com/stag-rdma/stag/chunks"
	"github.com/stag-rdma/stag/rpcrdma"
	"github.com/stag-rdma/stag/transport/rpc"
	"go.uber.org/zap"
)

// Configure makes the first call of a connection with profile rfc5666: the Connection Configuration
// Protocol (RFC 5666 Section 6). A server need not have it. agreed is the size of Sends that was
// agreed by RFC 8797, 0 for none.
func (c *Requester) Configure(ctx context.Context, agreed int) error {
	state := c.conn.ConnectionState()
	args := rpcrdma.ConfigArgs{
		MaxCall: uint32(c.cfg.InlineSend), MaxReply: uint32(c.cfg.InlineRecv), MaxRead: uint32(state.IRD),
	}
	call := rpc.Call{
		Prog: rpcrdma.ConfigProgram, Vers: rpcrdma.ConfigVersion, Proc: rpcrdma.ConfigProc,
		Cred: c.cfg.ConfigCred, Args: args.Append(nil),
	}
	var r rpc.Reply
	defer r.Release()
	err := c.Do(ctx, &call, &r)
	if _, refused := err.(*rpc.RPCError); err != nil && !refused { //nolint:errorlint // Do does not wrap it
		return err
	}
	if err == nil {
		err = r.Header.Err()
	}
	var got rpcrdma.ConfigReply
	if err == nil {
		got, err = rpcrdma.ParseConfigReply(r.Results)
	}
	if err != nil {
		c.cfg.Logger.Debug("transport: no connection configuration", zap.Error(err))
		return nil
	}
	c.apply(got, agreed)
	return nil
}

// apply applies what the server has announced.
func (c *Requester) apply(got rpcrdma.ConfigReply, agreed int) {
	if got.MaxRead > 0 {
		c.conn.LimitORD(int(min(got.MaxRead, 1<<14)))
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.req.Configure(func(rc *rpcrdma.RequesterConfig) {
		rc.SendSize = rpcrdma.ConfigInline(c.cfg.InlineSend, got.MaxCall, agreed)
		rc.Reads = rc.Reads && got.MaxRead > 0
		if rpcrdma.PadsTo(got.Align) {
			rc.Align = int(got.Align)
		}
		c.anyItem = c.anyItem || rpcrdma.PadsTo(got.Align)
	})
}

// checkSinks refuses a call with room for results of which none may be placed there: the caller would wait in vain
// for octets in it. Where nothing at all is reduced (mayReduce), results come inline, as Call.Sink says.
func (c *Requester) checkSinks(call *rpc.Call) error {
	if len(call.Sink)+len(call.MoreSinks) == 0 || call.Cred.Protected() || c.receives != nil {
		return nil
	}
	if _, result := c.mayReduce(call); result {
		return nil
	}
	return &rpc.RPCError{Reason: rpc.ReasonBadCall, Err: fmt.Errorf("call with a Sink: %w", &rpcrdma.BindingError{Prog: call.Prog, Vers: call.Vers, Proc: call.Proc})}
}

// mayReduce reports whether the argument and the result of a call may travel in chunks.
//
// Choice: items that no binding names are reduced only if the server is known to follow RFC 5666: it has
// announced an alignment, or Config.PeerAlign is set. Other servers refuse them.
func (c *Requester) mayReduce(call *rpc.Call) (arg, result bool) {
	if call.Cred.Protected() || c.receives != nil { // RFC 8166 Section 8.2.2.3: nothing is reduced
		return false, false
	}
	if c.anyItem && !chunks.Covers(c.cfg.Binding, call.Prog, call.Vers) {
		return true, true
	}
	return c.cfg.Binding.Eligible(call.Prog, call.Vers, call.Proc)
}
