// Package ops is for the administrator of a server: it watches the calls, has the pages that say how the server does, and
// finds what keeps a mount from working.
package ops

import (
	"context"
	"time"

	"github.com/stag-rdma/stag/internal/accept"
	"github.com/stag-rdma/stag/nfsdemo/mount3"
	"github.com/stag-rdma/stag/nfsdemo/nfs3"
	"github.com/stag-rdma/stag/transport/rpc"
	"github.com/stag-rdma/stag/xdr"
	"go.uber.org/zap"
)

// Handler logs who mounts what, and counts and times the calls. It passes calls on to another handler, and watches them. It says about calls what that handler
// says, and is safe for concurrent use.
type Handler struct {
	next  rpc.Handler
	log   *zap.Logger // sampled, because anybody can ask for a mount
	calls *Calls      // nil: NFS calls are not counted
}

var _ rpc.Handler = (*Handler)(nil)

// New makes a handler in front of next. log may be nil, for no lines, and calls too, for no counters.
func New(next rpc.Handler, log *zap.Logger, calls *Calls) *Handler {
	if log == nil {
		log = zap.NewNop()
	}
	return &Handler{next: next, log: accept.Sampled(log), calls: calls}
}

// ServeRPC implements rpc.Handler.
func (h *Handler) ServeRPC(ctx context.Context, req *rpc.Request, resp *rpc.Response) {
	if h.calls != nil && req.Prog == nfs3.Program && req.Vers == nfs3.Version {
		begun := time.Now()
		h.next.ServeRPC(ctx, req, resp)
		h.calls.count(req, resp, begun)
		return
	}
	h.next.ServeRPC(ctx, req, resp)
	if req.Prog == mount3.Program && req.Vers >= mount3.Version1 && req.Vers <= mount3.Version {
		h.mount(req, resp)
	}
}

// mount logs the outcome of MNT and UMNT.
func (h *Handler) mount(req *rpc.Request, resp *rpc.Response) {
	var args mount3.PathArgs
	d := xdr.NewDecoder(req.Args)
	proc := mount3.Proc(req.Proc)
	if proc != mount3.ProcMnt && proc != mount3.ProcUmnt || xdr.Decode(&d, &args).Err() != nil {
		return
	}
	log := h.log.With(zap.Stringer("client", req.RemoteAddr), zap.String("transport", req.Network), zap.String("path", args.Path))
	if cred, err := xdr.ParseSysCred(req.Cred.Body); err == nil && req.Cred.Flavor == xdr.AuthSys {
		log = log.With(zap.String("machine", cred.MachineName), zap.Uint32("uid", cred.UID))
	}
	if proc == mount3.ProcUmnt {
		log.Info("unmounted")
		return
	}
	var res mount3.MountRes
	d = xdr.NewDecoder(resp.Results)
	switch err := xdr.Decode(&d, &res).Err(); {
	case err != nil:
		h.calls.mounted(false)
		log.Warn("mount refused", zap.String("why", "the call was denied: wrong credentials"))
	case res.Status != mount3.OK && req.Vers < mount3.Version:
		h.calls.mounted(false)
		log.Warn("mount refused", zap.String("why", "there is no NFSv2 here: mount with vers=3"))
	case res.Status != mount3.OK:
		h.calls.mounted(false)
		log.Warn("mount refused", zap.String("why", why(res.Status)))
	default:
		h.calls.mounted(true)
		log.Info("mount granted")
	}
}

// why says what a refusal means.
func why(s mount3.Status) string {
	switch s {
	case mount3.ErrAcces, mount3.ErrPerm:
		return s.String() + ": the export does not admit this client"
	case mount3.ErrNoEnt:
		return s.String() + ": no such export, or no such directory in it"
	case mount3.ErrNotDir:
		return s.String() + ": not a directory"
	case mount3.ErrIO:
		return s.String() + ": the export cannot be used now"
	case mount3.OK, mount3.ErrInval, mount3.ErrNameTooLong, mount3.ErrNotSupp, mount3.ErrServerFault:
	}
	return s.String()
}

// Describe passes on what the next handler says, and so does Ready.
func (h *Handler) Describe(req *rpc.Request) rpc.Traits { return rpc.Describe(h.next, req) }

// Ready implements the optional method of a rpc.Handler.
func (h *Handler) Ready(ctx context.Context, req *rpc.Request) bool {
	return rpc.Ready(ctx, h.next, req)
}
