package nfsclient

import (
	"context"

	"github.com/stag-rdma/stag/nfsdemo/internal/pushfile"
	"github.com/stag-rdma/stag/transport/rpc"
	"github.com/stag-rdma/stag/xdr"
	"go.uber.org/zap"
)

var _ rpc.Handler = (*pusher)(nil)

// ServeRPC serves the backward direction: recalls, and the
// programs of the user's own handler.
func (p *pusher) ServeRPC(ctx context.Context, req *rpc.Request, resp *rpc.Response) {
	if req.Prog == pushfile.CallbackProgram {
		p.serveRecall(req, resp)
		return
	}
	if resp.Stat = xdr.ProgUnavail; p.next != nil {
		resp.Stat = xdr.Success
		p.next.ServeRPC(ctx, req, resp)
	}
}

func (p *pusher) serveRecall(req *rpc.Request, resp *rpc.Response) {
	d := xdr.NewDecoder(req.Args)
	var a pushfile.RecallArgs
	switch {
	case req.Vers != pushfile.CallbackVersion:
		resp.ProgMismatch(pushfile.CallbackVersion, pushfile.CallbackVersion)
		return
	case req.Proc == pushfile.ProcRecall:
		a.Parse(&d)
	case req.Proc != pushfile.ProcNull:
		resp.Stat = xdr.ProcUnavail
		return
	}
	switch {
	case d.End() != nil:
		resp.Stat = xdr.GarbageArgs
	case req.Proc == pushfile.ProcRecall:
		resp.Results = xdr.AppendUint32(resp.Results, uint32(p.recall(&a)))
	}
}

// recall serves CB_RECALL. A file without appends in flight is returned at once; others are returned
// when their appends have been acknowledged. Only the server of the session knows the session's name.
func (p *pusher) recall(a *pushfile.RecallArgs) pushfile.Status {
	p.mu.Lock()
	s, f := p.session, p.files[a.Lease]
	p.mu.Unlock()
	if f == nil || s != f.session || pushfile.Session(s.ID()) != a.Session {
		return pushfile.StatusUnknownLease
	}
	p.log.Info("nfsclient: file recalled", zap.String("path", f.n.Path), zap.Uint32("milliseconds", a.Milliseconds))
	return f.recall()
}
