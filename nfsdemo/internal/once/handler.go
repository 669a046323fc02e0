package once

import (
	"context"

	"github.com/stag-rdma/stag/internal/callid"
	"github.com/stag-rdma/stag/nfsdemo/internal/once/internal/ledger"
	"github.com/stag-rdma/stag/transport/rpc"
	"github.com/stag-rdma/stag/xdr"
	"go.uber.org/zap"
)

// Handler serves a Service, and each of its covered calls exactly once. It is a
// rpc.Handler and safe for concurrent use.
type Handler struct {
	j     *Journal
	svc   Service
	log   *zap.Logger
	locks locks
}

var _ rpc.Handler = (*Handler)(nil)

// ServeRPC implements rpc.Handler.
func (h *Handler) ServeRPC(ctx context.Context, req *rpc.Request, resp *rpc.Response) {
	if req.Cred.Flavor == xdr.RPCSECGSS {
		h.svc.ServeRPC(ctx, req, resp)
		return
	}
	names := h.svc.Names(req)
	if names == nil {
		h.svc.ServeRPC(ctx, req, resp)
		return
	}
	e, results, err := h.j.begin(ctx, keyOf(req))
	switch {
	case err != nil:
		h.refuse(req, resp, err)
	case e == nil:
		resp.Results = append(resp.Results, results...)
	default:
		h.run(ctx, e, names, req, resp)
	}
}

// run executes a call that has come for the first time.
func (h *Handler) run(ctx context.Context, e *ledger.Entry, names []string, req *rpc.Request, resp *rpc.Response) {
	give, err := h.locks.take(ctx, names)
	if err != nil {
		h.j.drop(e)
		h.refuse(req, resp, err)
		return
	}
	defer give()
	state, ok := h.svc.Before(ctx, req, resp)
	if !ok {
		h.j.drop(e)
		return
	}
	if err := h.j.intend(ctx, e, h.svc.Keep(req), state); err != nil {
		h.j.drop(e)
		h.refuse(req, resp, err)
		return
	}
	h.execute(ctx, e, req, resp)
	if !recordable(resp) {
		_, _ = h.j.void(e) // without this record the call is settled later, as not done
		return
	}
	if len(resp.Results) > maxResults { // it must not run again, so the refusal is its reply
		resp.Results = h.svc.Refuse(callOf(req), OutcomeUnknown, resp.Results[:0])
	}
	w, err := h.j.reply(e, resp.Results)
	give()
	if err == nil {
		err = h.j.recorded(e, w)
	}
	if err != nil {
		h.j.drop(e)
		resp.Results = resp.Results[:0]
		h.refuse(req, resp, err)
	}
}

// execute lets the service execute a call. If that panics, nobody knows how far it came, and the reply
// says so from then on.
func (h *Handler) execute(ctx context.Context, e *ledger.Entry, req *rpc.Request, resp *rpc.Response) {
	sound := false
	defer func() {
		if sound {
			return
		}
		w, err := h.j.reply(e, h.svc.Refuse(callOf(req), OutcomeUnknown, nil))
		if err == nil {
			err = h.j.recorded(e, w)
		}
		if err != nil {
			h.j.drop(e)
		}
	}()
	h.svc.ServeRPC(ctx, req, resp)
	sound = true
}

// replyHeader is the length in octets of a reply header with AUTH_NONE and SUCCESS (RFC 5531 Section 9).
const replyHeader = 24

// recordable reports whether the reply consists of Results only. Any other reply of a service, such as
// GARBAGE_ARGS, means that it has executed nothing.
func recordable(resp *rpc.Response) bool {
	return resp.Stat == xdr.Success && resp.ReplySize() == replyHeader+len(resp.Results)
}

// refuse answers a call that cannot be recorded.
func (h *Handler) refuse(req *rpc.Request, resp *rpc.Response, err error) {
	h.j.mu.Lock()
	h.j.stats.Refused++
	h.j.mu.Unlock()
	if c := h.log.Check(zap.WarnLevel, "once: call refused"); c != nil {
		c.Write(zap.Uint32("rpc.xid", req.XID), zap.Uint32("rpc.procedure", req.Proc), zap.Error(err))
	}
	resp.Results = h.svc.Refuse(callOf(req), NotRecorded, resp.Results)
}

func callOf(req *rpc.Request) *Call {
	return &Call{XID: req.XID, Prog: req.Prog, Vers: req.Vers, Proc: req.Proc}
}

// keyOf returns what distinguishes a call from others: the same as in the transport's cache.
func keyOf(req *rpc.Request) ledger.Key {
	return ledger.Key{Call: callid.Of(req.RemoteAddr, &req.CallHeader, len(req.Args)), Sum: callid.SumOf(req.Args).CRC}
}

// MayBlock reports whether a call may block: the Service says so, or it must not run twice.
func (h *Handler) MayBlock(prog, vers, proc uint32) bool {
	return rpc.MayBlock(h.svc, prog, vers, proc) || h.NonIdempotent(prog, vers, proc)
}

// Class asks the Service.
func (h *Handler) Class(req *rpc.Request) uint32 { return rpc.Class(h.svc, req) }

// NonIdempotent asks the Service.
func (h *Handler) NonIdempotent(prog, vers, proc uint32) bool {
	return rpc.NonIdempotent(h.svc, prog, vers, proc)
}

// Lazy asks the Service, unless the call must not run twice: all its octets say which call it is.
func (h *Handler) Lazy(prog, vers, proc uint32) bool {
	return rpc.Lazy(h.svc, prog, vers, proc) && !h.NonIdempotent(prog, vers, proc)
}

// Ready asks the Service.
func (h *Handler) Ready(ctx context.Context, req *rpc.Request) bool {
	return rpc.Ready(ctx, h.svc, req)
}
